// A step's arrays in device memory, one block per buffer. Knows the driver and the public API.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

#include "runtime/cuda/cuda_memory.hpp"

namespace stepfuse::gpu_bench {

class DeviceArrays {
 public:
  // The tensors are packed as in a bucket, the first one `misalign` elements behind an aligned
  // address. They hold zeros or random numbers. The random numbers repeat only after some millions:
  // uniform bytes would draw less power than a trainer's arrays do.
  enum class Fill : uint8_t { zeros, random };
  DeviceArrays(const std::shared_ptr<cuda::Context>& context, const Layout& layout, DType dtype,
               Fill fill, size_t misalign = 0);
  ~DeviceArrays();
  DeviceArrays(const DeviceArrays&) = delete;
  DeviceArrays& operator=(const DeviceArrays&) = delete;
  const std::vector<void*>& pointers() const { return pointers_; }

 private:
  void fill(Fill fill, DType dtype);
  cuda::CudaMemory memory_;
  size_t bytes_ = 0;
  char* block_ = nullptr;
  std::vector<void*> pointers_;
};

}  // namespace stepfuse::gpu_bench
