// Memory of a CUDA device, and page-locked host memory. Knows the driver and the memory interface.
#pragma once

#include <array>
#include <memory>

#include "runtime/cuda/context.hpp"
#include "runtime/device/device_memory.hpp"

namespace stepfuse::cuda {

class CudaMemory final : public DeviceMemory {
 public:
  explicit CudaMemory(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  std::string device_name() const override;
  void* allocate(size_t bytes, Stream stream) override;
  void release(void* memory, size_t bytes, Stream stream) noexcept override;
  void copy_to_device(void* device, const void* host, size_t bytes, Stream stream) override;
  void copy_to_host(void* host, const void* device, size_t bytes, Stream stream) override;
  bool is_capturing(Stream stream) override;
  void on_device(const std::function<void()>& f) override;
  std::string problem_with(const void* p) override;

 private:
  struct Range {
    uintptr_t begin = 0, end = 0;
  };
  std::shared_ptr<Context> context_;
  // Allocations already found to be valid: gradients move among a few of them.
  std::array<Range, 64> known_;
  size_t next_known_ = 0;
};

// Page-locked host memory that kernels of the context can write.
class PinnedMemory {
 public:
  PinnedMemory(std::shared_ptr<Context> context, size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  char* host() const { return host_; }
  void* device() const { return device_; }  // the same memory at its device address

 private:
  std::shared_ptr<Context> context_;
  char* host_ = nullptr;
  void* device_ = nullptr;
};

}  // namespace stepfuse::cuda
