// Copies on the host, and in the order of a CUDA stream by the driver's functions, which are found when they are first
// needed.
#include "python/jax/memory.hpp"

#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <string>

#include "python/jax/definition.hpp"

namespace stepfuse_jax {
namespace {

struct Driver {
  using Result = int;
  Result (*copy)(uint64_t to, uint64_t from, size_t bytes, void* stream) = nullptr;
  Result (*fill)(uint64_t at, unsigned char value, size_t bytes, void* stream) = nullptr;
  Result (*current)(void** context) = nullptr;
  Result (*push)(void* context) = nullptr;
  Result (*pop)(void** context) = nullptr;
  Result (*device)(int* ordinal) = nullptr;
  Result (*wait)() = nullptr;
  Result (*name_of)(Result result, const char** name) = nullptr;
  std::string problem;

  Driver() {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
      problem = dlerror();
      return;
    }
    find(library, copy, "cuMemcpyDtoDAsync_v2");
    find(library, fill, "cuMemsetD8Async");
    find(library, current, "cuCtxGetCurrent");
    find(library, push, "cuCtxPushCurrent_v2");
    find(library, pop, "cuCtxPopCurrent_v2");
    find(library, device, "cuCtxGetDevice");
    find(library, wait, "cuCtxSynchronize");
    find(library, name_of, "cuGetErrorName");
  }

 private:
  template <class F>
  void find(void* library, F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
    if (function == nullptr) problem = std::string("libcuda.so.1 has no ") + name;
  }
};

const Driver& driver() {
  static const Driver found;
  return found;
}

void check_cuda(Driver::Result result, const char* function) {
  if (result == 0) return;
  const char* name = nullptr;
  driver().name_of(result, &name);
  throw Failure(std::string(function) + ": " + (name == nullptr ? std::to_string(result) : name));
}

uint64_t to_address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace

Memory Memory::on_cuda(void* stream) {
  if (!driver().problem.empty()) {
    throw Failure("XLA runs on a CUDA device, and its driver cannot be used: " + driver().problem);
  }
  Memory memory;
  memory.stream_ = stream;
  check_cuda(driver().current(&memory.context_), "cuCtxGetCurrent");
  check_cuda(driver().device(&memory.ordinal_), "cuCtxGetDevice");
  return memory;
}

void Memory::copy(void* to, const void* from, size_t bytes) const {
  if (bytes == 0) return;
  if (!is_cuda()) {
    std::memcpy(to, from, bytes);
    return;
  }
  check_cuda(driver().copy(to_address(to), to_address(from), bytes, stream_), "cuMemcpyDtoDAsync");
}

void Memory::zero(void* at, size_t bytes) const {
  if (bytes == 0) return;
  if (!is_cuda()) {
    std::memset(at, 0, bytes);
    return;
  }
  check_cuda(driver().fill(to_address(at), 0, bytes, stream_), "cuMemsetD8Async");
}

// A step may end in any thread, and after the driver.
void Memory::wait() const noexcept {
  if (!is_cuda() || driver().push(context_) != 0) return;
  driver().wait();
  void* popped = nullptr;
  driver().pop(&popped);
}

}  // namespace stepfuse_jax
