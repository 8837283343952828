// The driver of this process: whether there is one, its devices, and its errors as exceptions. Knows the
// driver's functions and the error type.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/driver_library.hpp"

namespace stepfuse::cuda {

struct DeviceInfo {
  std::string name;
  int arch = 0;  // compute capability, major * 10 + minor
  int multiprocessors = 0;
  bool cooperative = false;
  bool pageable = false;  // its kernels can use ordinary host memory
};

struct DriverStatus {
  bool available = false;
  std::string path;
  int version = 0;      // 13000 is CUDA 13.0
  std::string problem;  // if not available: the missing file or function, or cuInit's error
  std::vector<DeviceInfo> devices;
};

// Opens and initialises the driver once per process; never throws.
const DriverStatus& driver_status();

// Returns the functions. Throws Error{device} with the problem if there is no driver.
const DriverLibrary& driver();

// Throws Error{device} unless the call succeeded: "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of …)".
void check(CuResult result, std::string_view call);
std::string error_text(CuResult result);

}  // namespace stepfuse::cuda
