// Allocates and copies, waiting for the device; a step's run does neither. Knows the driver and fmt.
#include "runtime/cuda/cuda_memory.hpp"

#include <iterator>

#include <fmt/format.h>

namespace stepfuse::cuda {
namespace {
CuPointer address(const void* p) { return reinterpret_cast<CuPointer>(p); }
}  // namespace

std::string CudaMemory::device_name() const { return fmt::format("cuda:{}", context_->ordinal()); }

void* CudaMemory::allocate(size_t bytes, Stream) {
  Context::Scope scope(*context_);
  CuPointer p = 0;
  CuResult result = driver().cuMemAlloc(&p, bytes == 0 ? 1 : bytes);
  if (result == kOutOfMemory) {
    throw Error(ErrorKind::device, fmt::format("out of device memory: the step needs {} bytes of "
                                               "its own on cuda:{}",
                                               bytes, context_->ordinal()));
  }
  check(result, "cuMemAlloc");
  return reinterpret_cast<void*>(p);
}

void CudaMemory::release(void* memory, size_t, Stream) noexcept {
  try {
    Context::Scope scope(*context_);
    driver().cuMemFree(address(memory));  // waits for work that uses it
  } catch (const Error&) {
    // The context is gone, and its memory with it.
  }
}

void CudaMemory::copy_to_device(void* device, const void* host, size_t bytes, Stream stream) {
  if (bytes == 0) return;
  Context::Scope scope(*context_);
  check(driver().cuMemcpyHtoDAsync(address(device), host, bytes, stream.handle),
        "cuMemcpyHtoDAsync");
  check(driver().cuStreamSynchronize(stream.handle), "cuStreamSynchronize");
}

void CudaMemory::copy_to_host(void* host, const void* device, size_t bytes, Stream stream) {
  Context::Scope scope(*context_);
  if (bytes != 0) {
    check(driver().cuMemcpyDtoHAsync(host, address(device), bytes, stream.handle),
          "cuMemcpyDtoHAsync");
  }
  check(driver().cuStreamSynchronize(stream.handle), "cuStreamSynchronize");
}

void CudaMemory::on_device(const std::function<void()>& f) {
  Context::Scope scope(*context_);
  f();
}

bool CudaMemory::is_capturing(Stream stream) {
  Context::Scope scope(*context_);
  int status = 0;
  check(driver().cuStreamIsCapturing(stream.handle, &status), "cuStreamIsCapturing");
  return status != 0;
}

std::string CudaMemory::problem_with(const void* p) {
  auto at = reinterpret_cast<uintptr_t>(p);
  for (const Range& r : known_) {
    if (at >= r.begin && at < r.end) return {};
  }
  if (context_->device().pageable || driver().cuPointerGetAttributes == nullptr) return {};
  Context::Scope scope(*context_);
  unsigned type = 0, managed = 0;
  int ordinal = -1;
  CuPointer device = 0, begin = 0;
  size_t bytes = 0;
  int attributes[] = {kPointerMemoryType,    kPointerIsManaged,  kPointerDeviceOrdinal,
                      kPointerDevicePointer, kPointerRangeStart, kPointerRangeSize};
  void* values[] = {&type, &managed, &ordinal, &device, &begin, &bytes};
  // If the driver does not know the memory, there is no reason to refuse it.
  if (driver().cuPointerGetAttributes(std::size(attributes), attributes, values, address(p)) !=
      kSuccess) {
    return {};
  }
  if (managed == 0) {
    if (type == 0) {
      return "host memory, which kernels cannot use unless it is page-locked (cuMemHostRegister)";
    }
    if (type == kMemoryTypeHost && device != at) {
      return "page-locked host memory, which the device sees at a different address: pass that "
             "address";
    }
    if (type == kMemoryTypeDevice && ordinal != context_->ordinal()) {
      return fmt::format("memory of cuda:{}", ordinal);
    }
  }
  known_[next_known_] = {begin, begin + bytes};
  next_known_ = (next_known_ + 1) % known_.size();
  return {};
}

PinnedMemory::PinnedMemory(std::shared_ptr<Context> context, size_t bytes)
    : context_(std::move(context)) {
  Context::Scope scope(*context_);
  void* p = nullptr;
  check(driver().cuMemHostAlloc(&p, bytes == 0 ? 1 : bytes, kHostPortable | kHostMapped),
        "cuMemHostAlloc");
  host_ = static_cast<char*>(p);
  CuPointer device = 0;
  check(driver().cuMemHostGetDevicePointer(&device, p, 0), "cuMemHostGetDevicePointer");
  device_ = reinterpret_cast<void*>(device);
}

PinnedMemory::~PinnedMemory() {
  try {
    Context::Scope scope(*context_);
    driver().cuMemFreeHost(host_);
  } catch (const Error&) {
  }
}

}  // namespace stepfuse::cuda
