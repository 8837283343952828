// Opens libcuda.so.1. Knows its name only.
#include "runtime/cuda/driver_library.hpp"

#include "runtime/process/shared_library.hpp"

namespace stepfuse::cuda {

DriverLibrary open_driver(std::string* problem) {
  // "libcuda.so" is not tried: on many machines that linker name is a stub of the toolkit.
  SharedLibrary library("libcuda.so.1");
  DriverLibrary driver;
#define X(member, symbol, parameters) library.find(driver.member, #symbol);
  STEPFUSE_DRIVER_FUNCTIONS(X)
#undef X
#define X(member, symbol, parameters) library.find(driver.member, #symbol, false);
  STEPFUSE_OPTIONAL_DRIVER_FUNCTIONS(X)
#undef X
  driver.path = library.path();
  if (library.problem().empty()) return driver;
  *problem = library.problem();
  if (library) *problem += ": the driver is older than CUDA 11.8";
  library.close();
  return {};
}

}  // namespace stepfuse::cuda
