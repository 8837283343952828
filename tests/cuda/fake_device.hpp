// Makes the fake driver this process's libcuda.so.1, before anything opens the real one. Knows the
// fake driver's controls and NVRTC.
#pragma once

#include <cstdint>
#include <string>

#include "tests/support/driver_call.hpp"

namespace stepfuse::testing {

// True if there is a device to test on: the fake driver opened as libcuda.so.1, and NVRTC.
bool fake_device();
std::string fake_device_problem();

// The fake driver's controls (control.hpp).
uint64_t driver_calls(const char* name);
uint64_t driver_calls();  // of all functions
void reset_driver_calls();
uint64_t launched_blocks();  // so far
// Not 0 while the calling thread is inside of the fake driver.
using DepthFunction = int (*)();
DepthFunction driver_depth();
void make_driver_lazy(bool lazy);
void seed_driver(uint64_t seed);
void fail_driver(const char* name, uint64_t nth, int code);
std::string driver_report();

}  // namespace stepfuse::testing

#define STEPFUSE_NEEDS_FAKE_DEVICE()                                    \
  do {                                                                  \
    if (!stepfuse::testing::fake_device()) {                            \
      MESSAGE("skipped: " << stepfuse::testing::fake_device_problem()); \
      return;                                                           \
    }                                                                   \
  } while (false)
