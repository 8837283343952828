// The memory of a step, from the caller's allocator or the device. Knows the public API and the device's
// memory.
#pragma once

#include <memory>

#include <stepfuse/stepfuse.hpp>

#include "runtime/device/device_memory.hpp"

namespace stepfuse {

// One block of device memory, released with its owner.
class WorkspaceBlock {
 public:
  WorkspaceBlock(size_t bytes, const Allocator& allocator, std::shared_ptr<DeviceMemory> memory);
  ~WorkspaceBlock();
  WorkspaceBlock(const WorkspaceBlock&) = delete;
  WorkspaceBlock& operator=(const WorkspaceBlock&) = delete;
  char* base() const { return base_; }

 private:
  void release() noexcept;

  size_t bytes_;
  Allocator allocator_;
  std::shared_ptr<DeviceMemory> memory_;
  char* base_ = nullptr;
};

}  // namespace stepfuse
