// The CUDA driver's functions, resolved from libcuda.so.1 at run time; no CUDA header is needed.
// Knows only std.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace stepfuse::cuda {

using CuResult = int;
using CuDevice = int;
using CuPointer = uint64_t;
using CuContext = struct CuContextTag*;
using CuModule = struct CuModuleTag*;
using CuFunction = struct CuFunctionTag*;
using CuStream = void*;
using CuEvent = struct CuEventTag*;
using CuGraph = struct CuGraphTag*;
using CuUserObject = struct CuUserObjectTag*;

// The values are those of cuda.h; only used ones have a name here.
inline constexpr CuResult kSuccess = 0;
inline constexpr CuResult kOutOfMemory = 2;
inline constexpr CuResult kNoBinaryForGpu = 209;
inline constexpr CuResult kNotReady = 600;
inline constexpr CuResult kCooperativeLaunchTooLarge = 720;
inline constexpr int kAttributeCooperative = 2;  // CU_LAUNCH_ATTRIBUTE_COOPERATIVE
inline constexpr int kMultiprocessorCount = 16;
inline constexpr int kComputeCapabilityMajor = 75;
inline constexpr int kComputeCapabilityMinor = 76;
inline constexpr int kCooperativeLaunch = 95;
inline constexpr unsigned kHostPortable = 1;
inline constexpr unsigned kHostMapped = 2;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kNoDestructorSync = 1;  // of a user object: the only choice
inline constexpr unsigned kMoveUserObject = 1;    // the graph takes over the caller's reference
inline constexpr int kPageableMemoryAccess = 88;
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerDevicePointer = 3;
inline constexpr int kPointerIsManaged = 8;
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr int kPointerRangeStart = 11;
inline constexpr int kPointerRangeSize = 12;
inline constexpr unsigned kMemoryTypeHost = 1;
inline constexpr unsigned kMemoryTypeDevice = 2;

struct CuLaunchAttribute {
  int id = 0;
  char padding[4] = {};
  union {
    int number;
    char bytes[64];
  } value = {};
};
static_assert(sizeof(CuLaunchAttribute) == 72);

struct CuLaunchConfig {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  CuStream stream = nullptr;
  CuLaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
static_assert(sizeof(CuLaunchConfig) == 56);

// X(member, exported name, parameters). The exported names include the ABI version that is meant.
#define STEPFUSE_DRIVER_FUNCTIONS(X)                                                          \
  X(cuInit, cuInit, (unsigned))                                                               \
  X(cuDriverGetVersion, cuDriverGetVersion, (int*))                                           \
  X(cuGetErrorName, cuGetErrorName, (CuResult, const char**))                                 \
  X(cuGetErrorString, cuGetErrorString, (CuResult, const char**))                             \
  X(cuDeviceGetCount, cuDeviceGetCount, (int*))                                               \
  X(cuDeviceGet, cuDeviceGet, (CuDevice*, int))                                               \
  X(cuDeviceGetName, cuDeviceGetName, (char*, int, CuDevice))                                 \
  X(cuDeviceGetAttribute, cuDeviceGetAttribute, (int*, int, CuDevice))                        \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CuContext*, CuDevice))               \
  X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CuDevice))                      \
  X(cuCtxGetCurrent, cuCtxGetCurrent, (CuContext*))                                           \
  X(cuCtxGetDevice, cuCtxGetDevice, (CuDevice*))                                              \
  X(cuCtxPushCurrent, cuCtxPushCurrent_v2, (CuContext))                                       \
  X(cuCtxPopCurrent, cuCtxPopCurrent_v2, (CuContext*))                                        \
  X(cuCtxSynchronize, cuCtxSynchronize, ())                                                   \
  X(cuModuleLoadDataEx, cuModuleLoadDataEx, (CuModule*, const void*, unsigned, int*, void**)) \
  X(cuModuleUnload, cuModuleUnload, (CuModule))                                               \
  X(cuModuleGetFunction, cuModuleGetFunction, (CuFunction*, CuModule, const char*))           \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor, \
    (int*, CuFunction, int, size_t))                                                          \
  X(cuLaunchKernelEx, cuLaunchKernelEx, (const CuLaunchConfig*, CuFunction, void**, void**))  \
  X(cuMemAlloc, cuMemAlloc_v2, (CuPointer*, size_t))                                          \
  X(cuMemFree, cuMemFree_v2, (CuPointer))                                                     \
  X(cuMemHostAlloc, cuMemHostAlloc, (void**, size_t, unsigned))                               \
  X(cuMemFreeHost, cuMemFreeHost, (void*))                                                    \
  X(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, (CuPointer*, void*, unsigned))   \
  X(cuMemHostRegister, cuMemHostRegister_v2, (void*, size_t, unsigned))                       \
  X(cuMemHostUnregister, cuMemHostUnregister, (void*))                                        \
  X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (CuPointer, const void*, size_t, CuStream))      \
  X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void*, CuPointer, size_t, CuStream))            \
  X(cuStreamSynchronize, cuStreamSynchronize, (CuStream))                                     \
  X(cuStreamIsCapturing, cuStreamIsCapturing, (CuStream, int*))                               \
  X(cuStreamWaitEvent, cuStreamWaitEvent, (CuStream, CuEvent, unsigned))                      \
  X(cuEventCreate, cuEventCreate, (CuEvent*, unsigned))                                       \
  X(cuEventRecord, cuEventRecord, (CuEvent, CuStream))                                        \
  X(cuEventQuery, cuEventQuery, (CuEvent))                                                    \
  X(cuEventSynchronize, cuEventSynchronize, (CuEvent))                                        \
  X(cuEventElapsedTime, cuEventElapsedTime, (float*, CuEvent, CuEvent))                       \
  X(cuMemsetD8Async, cuMemsetD8Async, (CuPointer, unsigned char, size_t, CuStream))           \
  X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (CuPointer, CuPointer, size_t, CuStream))        \
  X(cuMemGetInfo, cuMemGetInfo_v2, (size_t*, size_t*))                                        \
  X(cuEventDestroy, cuEventDestroy_v2, (CuEvent))

// Functions that a driver may lack. They are null then, and the step works without them.
#define STEPFUSE_OPTIONAL_DRIVER_FUNCTIONS(X)                                                      \
  X(cuCtxGetId, cuCtxGetId, (CuContext, uint64_t*))                                                \
  X(cuFuncLoad, cuFuncLoad, (CuFunction))                                                          \
  X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v2,                                             \
    (CuStream, int*, uint64_t*, CuGraph*, void***, size_t*))                                       \
  X(cuUserObjectCreate, cuUserObjectCreate,                                                        \
    (CuUserObject*, void*, void (*)(void*), unsigned, unsigned))                                   \
  X(cuUserObjectRelease, cuUserObjectRelease, (CuUserObject, unsigned))                            \
  X(cuGraphRetainUserObject, cuGraphRetainUserObject, (CuGraph, CuUserObject, unsigned, unsigned)) \
  X(cuPointerGetAttributes, cuPointerGetAttributes, (unsigned, int*, void**, CuPointer))

struct DriverLibrary {
#define X(member, symbol, parameters) CuResult(*member) parameters = nullptr;
  STEPFUSE_DRIVER_FUNCTIONS(X)
  STEPFUSE_OPTIONAL_DRIVER_FUNCTIONS(X)
#undef X
  std::string path;
};

// Returns an empty library, and the reason in `problem`, if libcuda.so.1 does not open or lacks a
// function.
DriverLibrary open_driver(std::string* problem);

}  // namespace stepfuse::cuda
