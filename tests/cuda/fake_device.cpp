// Opens the fake driver by path, so that later opens of "libcuda.so.1" find it by its name. Knows the
// loader and NVRTC.
#include "tests/cuda/fake_device.hpp"

#include <cstdlib>
#include <dlfcn.h>

#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/nvrtc.hpp"

namespace stepfuse::testing {
namespace {

struct Opened {
  void* handle = nullptr;
  std::string problem;
};

const Opened& opened() {
  static const Opened instance = [] {
    Opened o;
    setenv("STEPFUSE_CUDA_CODE", "ptx", 1);  // the fake driver takes no cubins
    setenv("STEPFUSE_CACHE", "off", 1);
    setenv("STEPFUSE_FAKE_DEVICES", "2", 1);
    o.handle = dlopen(STEPFUSE_FAKE_DRIVER, RTLD_NOW | RTLD_GLOBAL);
    if (o.handle == nullptr) {
      o.problem = dlerror();
    } else if (!cuda::nvrtc_status().available) {
      o.problem = "NVRTC was not found. Tried:\n" + cuda::nvrtc_status().problem;
    } else if (cuda::driver_status().path.find("fake_driver") == std::string::npos) {
      o.problem = "libcuda.so.1 is not the fake driver but " + cuda::driver_status().path;
    }
    return o;
  }();
  return instance;
}

template <class F>
F* control(const char* name) {
  return reinterpret_cast<F*>(dlsym(opened().handle, name));
}

}  // namespace

bool fake_device() { return opened().problem.empty(); }
std::string fake_device_problem() { return opened().problem; }

uint64_t driver_calls(const char* name) {
  return control<uint64_t(const char*)>("stepfuse_fake_calls")(name);
}
uint64_t driver_calls() { return driver_calls(nullptr); }
DepthFunction driver_depth() { return control<int()>("stepfuse_fake_depth"); }
uint64_t launched_blocks() { return control<uint64_t()>("stepfuse_fake_blocks")(); }
void reset_driver_calls() { control<void()>("stepfuse_fake_reset_calls")(); }
void make_driver_lazy(bool lazy) { control<void(int)>("stepfuse_fake_lazy")(lazy ? 1 : 0); }
void seed_driver(uint64_t seed) { control<void(uint64_t)>("stepfuse_fake_seed")(seed); }
void fail_driver(const char* name, uint64_t nth, int code) {
  control<void(const char*, uint64_t, int, int)>("stepfuse_fake_fail")(name, nth, code, 0);
}
void* driver_symbol(const char* name) { return dlsym(opened().handle, name); }
std::string driver_report() { return control<const char*()>("stepfuse_fake_error")(); }

}  // namespace stepfuse::testing
