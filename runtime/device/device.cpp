// Devices and their backends. Knows the public API and every backend's factory.
#include <stepfuse/stepfuse.hpp>

#include "compiler/cuda/options.hpp"
#include "runtime/caches/process_cache.hpp"
#include "runtime/cpu/cpu_backend.hpp"
#include "runtime/cuda/cuda_backend.hpp"
#include "runtime/device/backend.hpp"
#include "runtime/device/interpreter_backend.hpp"

namespace stepfuse {

Device Device::cpu(int threads, std::string level) {
  if (threads < 0) {
    throw Error(ErrorKind::usage, "a CPU device has 0 (all) or more threads");
  }
  Device d(Kind::cpu);
  d.threads_ = threads;
  d.level_ = std::move(level);
  return d;
}

Device Device::cuda(int ordinal, std::string options) {
  if (ordinal < 0) throw Error(ErrorKind::usage, "CUDA devices are counted from 0");
  with_options({}, options);  // throws if an option has an unknown name
  Device d(Kind::cuda);
  d.ordinal_ = ordinal;
  d.options_ = std::move(options);
  return d;
}

std::unique_ptr<Backend> make_backend(const Device& device, bool interpreted) {
  bool is_cuda = device.kind() == Device::Kind::cuda;
  if (interpreted && is_cuda) return make_interpreter_backend(make_cuda_memory(device), false);
  switch (interpreted ? Device::Kind::interpreter : device.kind()) {
    case Device::Kind::cpu:
      return make_cpu_backend(device);
    case Device::Kind::interpreter:
      return make_interpreter_backend(std::make_shared<HostMemory>(), true);
    case Device::Kind::cuda:
      return make_cuda_backend(device);
  }
  internal_error("bad Device");
}

VariantCache<CpuKernel>& cpu_variants() {
  // The cache is leaked on purpose: threads may still run kernels while the process ends. It is bounded,
  // because each kernel takes two of the mappings that a process may have.
  static auto* cache = new VariantCache<CpuKernel>(256);
  return *cache;
}

CacheStats cache_stats() {
  return {cpu_variants().compiled() + cuda_variants().compiled(),
          cpu_variants().hits() + cuda_variants().hits()};
}

}  // namespace stepfuse
