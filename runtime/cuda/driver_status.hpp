// What the NVIDIA driver says about this machine, opened at run time. Knows only std.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stepfuse::cuda {

struct DeviceStatus {
  std::string name;
  int arch = 0;  // compute capability, major * 10 + minor
  int multiprocessors = 0;
  uint64_t memory_bytes = 0;
  bool cooperative_launch = false;
};

struct DriverStatus {
  bool available = false;
  std::string path;  // of libcuda
  int version = 0;   // the CUDA version it speaks: 13000 is 13.0
  std::vector<DeviceStatus> devices;
  std::string problem;  // if not available: which file, symbol or call, and what it said
};

// Asks once per process. Creates no context; never throws.
const DriverStatus& driver_status();

}  // namespace stepfuse::cuda
