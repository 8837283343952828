// The driver API's types and numbers that the fake driver needs, without a CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ptx::fake {

using Result = int;
using Device = int;
using DevicePointer = std::uint64_t;

inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotInitialized = 3;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kInvalidDevice = 101;
inline constexpr Result kInvalidContext = 201;
inline constexpr Result kNoBinaryForGpu = 209;
inline constexpr Result kInvalidPtx = 218;
inline constexpr Result kInvalidHandle = 400;
inline constexpr Result kNotFound = 500;
inline constexpr Result kNotReady = 600;
inline constexpr Result kIllegalAddress = 700;
inline constexpr Result kLaunchOutOfResources = 701;
inline constexpr Result kLaunchTimeout = 702;
inline constexpr Result kHostMemoryAlreadyRegistered = 712;
inline constexpr Result kHostMemoryNotRegistered = 713;
inline constexpr Result kMisalignedAddress = 716;
inline constexpr Result kLaunchFailed = 719;
inline constexpr Result kCooperativeLaunchTooLarge = 720;
inline constexpr Result kNotSupported = 801;
inline constexpr Result kCaptureUnsupported = 900;
inline constexpr Result kCaptureInvalidated = 901;
inline constexpr Result kCaptureUnmatched = 903;
inline constexpr Result kCaptureUnjoined = 904;
inline constexpr Result kCaptureIsolation = 905;
inline constexpr Result kCaptureImplicit = 906;
inline constexpr Result kCapturedEvent = 907;

// The arguments of cuLaunchKernelEx.
struct LaunchAttribute {
  int id;
  char padding[4];
  union {
    int number;
    unsigned dimensions[3];
    char bytes[64];
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);
inline constexpr int kAttributeClusterDimension = 4;
inline constexpr int kAttributeCooperative = 2;

struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56);
static_assert(offsetof(LaunchConfig, stream) == 32);

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;

// Stream handles 0 and 1 are the legacy default stream, 2 is the thread's default stream.
inline constexpr std::uintptr_t kLastDefaultStream = 2;

enum JitOption {
  kJitInfoLog = 3,
  kJitInfoLogSize = 4,
  kJitErrorLog = 5,
  kJitErrorLogSize = 6,
};

}  // namespace ptx::fake

#define STEPFUSE_FAKE_API extern "C" __attribute__((visibility("default"))) int
