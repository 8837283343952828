// The reason for skipping a test without a GPU. Knows the driver and NVRTC.
#pragma once

#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/nvrtc.hpp"

namespace stepfuse::testing {

inline std::string no_gpu() {
  const cuda::DriverStatus& driver = cuda::driver_status();
  if (!driver.available) return "no CUDA driver: " + driver.problem;
  if (driver.devices.empty()) return "the CUDA driver has no device";
  // The label `cuda` tests the fake driver, with smaller sizes.
  bool fake = driver.path.find("fake_driver") != std::string::npos;
  if (fake && std::getenv("STEPFUSE_GPU_TESTS_ON_FAKE_DRIVER") == nullptr) {
    return "the driver is the fake one";
  }
  if (!cuda::nvrtc_status().available) return "no NVRTC: " + cuda::nvrtc_status().problem;
  return "";
}

}  // namespace stepfuse::testing

#define STEPFUSE_NEEDS_GPU()                          \
  do {                                                \
    std::string reason = stepfuse::testing::no_gpu(); \
    if (!reason.empty()) {                            \
      MESSAGE("skipped: " << reason);                 \
      return;                                         \
    }                                                 \
  } while (false)
