// Opens libcuda.so.1. Knows the loader.
#include "runtime/cuda/driver_library.hpp"

#include <dlfcn.h>

namespace stepfuse::cuda {

DriverLibrary open_driver(std::string* problem) {
  // The linker name "libcuda.so" is a stub of the toolkit on many machines: not tried.
  void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    *problem = dlerror();
    return {};
  }
  DriverLibrary driver;
  std::string missing;
#define X(member, symbol, parameters)                                               \
  driver.member = reinterpret_cast<CuResult(*) parameters>(dlsym(handle, #symbol)); \
  if (driver.member == nullptr && missing.empty()) missing = #symbol;
  STEPFUSE_DRIVER_FUNCTIONS(X)
#undef X
#define X(member, symbol, parameters) \
  driver.member = reinterpret_cast<CuResult(*) parameters>(dlsym(handle, #symbol));
  STEPFUSE_OPTIONAL_DRIVER_FUNCTIONS(X)
#undef X
  Dl_info where{};
  if (driver.cuInit != nullptr && dladdr(reinterpret_cast<void*>(driver.cuInit), &where) != 0) {
    driver.path = where.dli_fname;
  }
  if (missing.empty()) return driver;
  *problem = driver.path + " has no " + missing + ": the driver is older than CUDA 11.8";
  dlclose(handle);
  return {};
}

}  // namespace stepfuse::cuda
