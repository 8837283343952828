// cuGetProcAddress, the names of errors, and the fake driver's own controls.
#include <array>
#include <cstring>
#include <dlfcn.h>
#include <string>

#include "tools/ptx_machine/fake_driver/control.hpp"
#include "tools/ptx_machine/fake_driver/driver.hpp"

using namespace ptx::fake;

namespace {

struct ErrorText {
  Result code;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "device busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no device found"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "invalid kernel image"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image for the device"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error"},
    {218, "CUDA_ERROR_INVALID_PTX", "the PTX could not be compiled"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "PTX version not supported"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "illegal memory access"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "host memory already registered"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "host memory not registered"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "launch failure"},
    {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not permitted while a stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "the capture failed earlier"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture began in another stream"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "the capture has unjoined work"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency on uncaptured work"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "would depend on the legacy stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "the event was recorded in a capture"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const ErrorText* find_error(Result code) {
  for (const ErrorText& e : kErrors) {
    if (e.code == code) return &e;
  }
  return nullptr;
}

}  // namespace

STEPFUSE_FAKE_API cuGetErrorName(Result code, const char** name) {
  STEPFUSE_FAKE_CALL(nothing);
  const ErrorText* error = find_error(code);
  *name = error != nullptr ? error->name : nullptr;
  return error != nullptr ? kSuccess : kInvalidValue;
}

STEPFUSE_FAKE_API cuGetErrorString(Result code, const char** text) {
  STEPFUSE_FAKE_CALL(nothing);
  const ErrorText* error = find_error(code);
  *text = error != nullptr ? error->text : nullptr;
  return error != nullptr ? kSuccess : kInvalidValue;
}

// The newest version of the function, under its name without a version.
STEPFUSE_FAKE_API cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                      std::uint64_t, int* status) {
  STEPFUSE_FAKE_CALL(nothing);
  *function = nullptr;
  if (symbol == nullptr) return kInvalidValue;
  Dl_info self{};
  dladdr(reinterpret_cast<void*>(&cuGetProcAddress_v2), &self);
  void* library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  std::string base = symbol;
  bool versioned = base.size() > 3 && base[base.size() - 3] == '_' && base[base.size() - 2] == 'v';
  bool known = !versioned && !driver.faults.hidden(base) && base.starts_with("cu");
  static constexpr std::array<const char*, 5> kVersions = {"_v4", "_v3", "_v2", "", "WithFlags"};
  // "cuGraphInstantiate" means the one with flags.
  for (std::size_t k = 0; known && *function == nullptr && k < kVersions.size(); ++k) {
    if (k == 4 && base != "cuGraphInstantiate") break;
    *function = dlsym(library, (base + kVersions[k]).c_str());
  }
  if (library != nullptr) dlclose(library);
  bool too_new = version > driver.settings.driver_version;
  if (status != nullptr) *status = *function == nullptr ? 1 : too_new ? 2 : 0;
  if (too_new) *function = nullptr;
  return *function == nullptr ? kNotFound : kSuccess;
}

#define STEPFUSE_FAKE_EXPORT extern "C" __attribute__((visibility("default")))

STEPFUSE_FAKE_EXPORT std::uint64_t stepfuse_fake_calls(const char* name) {
  return Driver::get().faults.calls(name);
}
STEPFUSE_FAKE_EXPORT void stepfuse_fake_reset_calls() { Driver::get().faults.reset_calls(); }
STEPFUSE_FAKE_EXPORT int stepfuse_fake_depth() { return Call::depth(); }
STEPFUSE_FAKE_EXPORT void stepfuse_fake_fail(const char* name, std::uint64_t nth, int code,
                                             int sticky) {
  Driver::get().faults.fail(name, nth, code, sticky != 0);
}
STEPFUSE_FAKE_EXPORT void stepfuse_fake_lose_device(std::uint64_t nth, std::uint64_t instructions,
                                                    int code) {
  Driver::get().faults.lose_device(nth, instructions, code);
}
STEPFUSE_FAKE_EXPORT void stepfuse_fake_hide(const char* base_name) {
  Driver::get().faults.hide(base_name);
}
STEPFUSE_FAKE_EXPORT void stepfuse_fake_seed(std::uint64_t seed) {
  Driver::get().seed = seed;
  Driver::get().streams->random = ptx::Random(seed);
}
STEPFUSE_FAKE_EXPORT void stepfuse_fake_lazy(int lazy) {
  Driver::get().streams->finish_all();
  Driver::get().streams->lazy = lazy != 0;
}
STEPFUSE_FAKE_EXPORT std::uint64_t stepfuse_fake_instructions() {
  return Driver::get().instructions;
}
STEPFUSE_FAKE_EXPORT std::uint64_t stepfuse_fake_launches() { return Driver::get().launches; }
STEPFUSE_FAKE_EXPORT std::uint64_t stepfuse_fake_blocks() { return Driver::get().blocks; }
STEPFUSE_FAKE_EXPORT std::uint64_t stepfuse_fake_device_bytes() {
  return Driver::get().machine->memory().bytes_in_use();
}
STEPFUSE_FAKE_EXPORT const char* stepfuse_fake_error() { return Driver::get().error.c_str(); }
STEPFUSE_FAKE_EXPORT void stepfuse_fake_reset() { Driver::get().reset(); }
