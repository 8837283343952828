// Compares our declarations of the CUDA driver with NVIDIA's cuda.h: functions, structures,
// constants. Knows the driver's table.
#include <cstddef>

#include <doctest/doctest.h>

// Declares every version of a function under its own name.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "runtime/cuda/driver_library.hpp"
#include "tests/headers/same_abi.hpp"

using namespace stepfuse;
using namespace stepfuse::cuda;

TEST_CASE("the comparison sees what matters of a call") {
  using test::called_alike;
  CHECK(called_alike<int(unsigned, const char**), CUresult(unsigned, char**)>);
  CHECK_FALSE(called_alike<int(unsigned), int(unsigned, int)>);
  CHECK_FALSE(called_alike<int(unsigned), int(size_t)>);
  CHECK_FALSE(called_alike<int(unsigned*), int(unsigned)>);
  CHECK_FALSE(called_alike<int(unsigned*), int(size_t*)>);
  CHECK_FALSE(called_alike<int(unsigned**), int(unsigned*)>);
  CHECK_FALSE(called_alike<int(void (*)(void*)), int(void (*)(int))>);
  CHECK_FALSE(called_alike<int(float), int(int)>);
}

TEST_CASE("every function of the driver is declared as in cuda.h") {
#define X(member, symbol, parameters) \
  INFO(#symbol);                      \
  CHECK(test::called_alike<CuResult parameters, decltype(::symbol)>);
  {
    STEPFUSE_DRIVER_FUNCTIONS(X)
    STEPFUSE_OPTIONAL_DRIVER_FUNCTIONS(X)
  }
#undef X
}

TEST_CASE("structures are laid out as in cuda.h") {
  CHECK(sizeof(CuLaunchConfig) == sizeof(CUlaunchConfig));
  CHECK(offsetof(CuLaunchConfig, grid) == offsetof(CUlaunchConfig, gridDimX));
  CHECK(offsetof(CuLaunchConfig, block) == offsetof(CUlaunchConfig, blockDimX));
  CHECK(offsetof(CuLaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
  CHECK(offsetof(CuLaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
  CHECK(offsetof(CuLaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
  CHECK(offsetof(CuLaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
  CHECK(sizeof(CuLaunchAttribute) == sizeof(CUlaunchAttribute));
  CHECK(offsetof(CuLaunchAttribute, id) == offsetof(CUlaunchAttribute, id));
  CHECK(offsetof(CuLaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
  CHECK(offsetof(CUlaunchAttributeValue, cooperative) == 0);
  CHECK(sizeof(CuPointer) == sizeof(CUdeviceptr));
  CHECK(sizeof(CuDevice) == sizeof(CUdevice));
}

TEST_CASE("constants have the values of cuda.h") {
  CHECK(kSuccess == CUDA_SUCCESS);
  CHECK(kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(kNoBinaryForGpu == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(kNotReady == CUDA_ERROR_NOT_READY);
  CHECK(kCooperativeLaunchTooLarge == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  CHECK(kAttributeCooperative == CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  CHECK(kMultiprocessorCount == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  CHECK(kComputeCapabilityMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  CHECK(kComputeCapabilityMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  CHECK(kCooperativeLaunch == CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
  CHECK(kPageableMemoryAccess == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  CHECK(kHostPortable == CU_MEMHOSTALLOC_PORTABLE);
  CHECK(kHostPortable == CU_MEMHOSTREGISTER_PORTABLE);
  CHECK(kHostMapped == CU_MEMHOSTALLOC_DEVICEMAP);
  CHECK(kHostMapped == CU_MEMHOSTREGISTER_DEVICEMAP);
  CHECK(kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
  CHECK(kNoDestructorSync == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  CHECK(kMoveUserObject == CU_GRAPH_USER_OBJECT_MOVE);
  CHECK(kPointerMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
  CHECK(kPointerDevicePointer == CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
  CHECK(kPointerIsManaged == CU_POINTER_ATTRIBUTE_IS_MANAGED);
  CHECK(kPointerDeviceOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
  CHECK(kPointerRangeStart == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
  CHECK(kPointerRangeSize == CU_POINTER_ATTRIBUTE_RANGE_SIZE);
  CHECK(kMemoryTypeHost == CU_MEMORYTYPE_HOST);
  CHECK(kMemoryTypeDevice == CU_MEMORYTYPE_DEVICE);
}
