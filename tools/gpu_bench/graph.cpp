// Streams and graphs through the driver's functions. Knows the loader and the driver's errors.
#include "tools/gpu_bench/graph.hpp"

#include <dlfcn.h>
#include <string>

#include <stepfuse/error.hpp>

#include "runtime/cuda/driver.hpp"

namespace stepfuse::gpu_bench {
namespace {

template <class... Args>
void call(const char* name, Args... args) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* symbol = library != nullptr ? dlsym(library, name) : nullptr;
  if (symbol == nullptr) throw Error(ErrorKind::device, std::string("the driver has no ") + name);
  cuda::check(reinterpret_cast<int (*)(Args...)>(symbol)(args...), name);
}

constexpr unsigned kNonBlocking = 1;
constexpr int kThreadLocalMode = 1;

}  // namespace

StepGraph::StepGraph(const std::function<void(void* stream)>& work) {
  call("cuStreamCreate", &stream_, kNonBlocking);
  work(stream_);
  call("cuStreamSynchronize", stream_);
  call("cuStreamBeginCapture_v2", stream_, kThreadLocalMode);
  work(stream_);
  call("cuStreamEndCapture", stream_, &graph_);
  call("cuGraphInstantiateWithFlags", &executable_, graph_, 0ULL);
}

StepGraph::~StepGraph() {
  try {
    call("cuStreamSynchronize", stream_);
    call("cuGraphExecDestroy", executable_);
    call("cuGraphDestroy", graph_);
    call("cuStreamDestroy_v2", stream_);
  } catch (const Error&) {
  }
}

void StepGraph::launch() const { call("cuGraphLaunch", executable_, stream_); }

}  // namespace stepfuse::gpu_bench
