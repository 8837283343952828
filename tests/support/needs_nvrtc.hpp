// Ends a test with its reason where NVRTC is not to be found. Knows the NVRTC front.
#pragma once

#include <doctest/doctest.h>

#include "runtime/cuda/nvrtc.hpp"

#define STEPFUSE_NEEDS_NVRTC()                                                  \
  do {                                                                          \
    const auto& nvrtc_found = stepfuse::cuda::nvrtc_status();                   \
    if (!nvrtc_found.available) {                                               \
      MESSAGE("skipped: NVRTC was not found. Tried:\n" << nvrtc_found.problem); \
      return;                                                                   \
    }                                                                           \
  } while (false)
