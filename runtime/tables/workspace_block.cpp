// Allocates a step's memory and gives it back. Knows the device's memory and fmt.
#include "runtime/tables/workspace_block.hpp"

#include <fmt/format.h>

#include "runtime/process/say.hpp"

namespace stepfuse {

WorkspaceBlock::WorkspaceBlock(size_t bytes, const Allocator& allocator,
                               std::shared_ptr<DeviceMemory> memory)
    : bytes_(bytes), allocator_(allocator), memory_(std::move(memory)) {
  if (!allocator_.allocate) {
    base_ = static_cast<char*>(memory_->allocate(bytes_, {}));
    return;
  }
  memory_->on_device([&] { base_ = static_cast<char*>(allocator_.allocate(bytes_, {})); });
  if (base_ == nullptr && bytes_ != 0) {
    throw Error(ErrorKind::device, "the caller's allocator returned null for the step's workspace");
  }
  std::string problem;
  try {
    problem = memory_->problem_with(base_);
  } catch (...) {
    release();
    throw;
  }
  if (reinterpret_cast<uintptr_t>(base_) % 256 != 0) {
    problem = "memory that is not 256-byte aligned";
  }
  if (bytes_ == 0 || problem.empty()) return;
  release();
  throw Error(
      ErrorKind::bind,
      fmt::format("the caller's allocator returned {}; the step runs on {} and needs 256-byte "
                  "aligned memory of it",
                  problem, memory_->device_name()));
}

WorkspaceBlock::~WorkspaceBlock() { release(); }

// Does not throw, because it may run during an exception: errors of the caller's allocator are dropped.
void WorkspaceBlock::release() noexcept {
  if (!allocator_.allocate) return memory_->release(base_, bytes_, {});
  if (!allocator_.release) return;
  bool asked = false;
  auto give_back = [&] {
    asked = true;
    allocator_.release(base_, bytes_, {});
  };
  try {
    try {
      memory_->on_device(give_back);
    } catch (const Error&) {
      if (asked) throw;
      give_back();  // the context is gone, but the caller's memory may not be
    }
  } catch (const std::exception& e) {
    say(fmt::format("stepfuse: the allocator's release failed, and {} bytes may be lost: {}",
                    bytes_, e.what()));
  } catch (...) {
    say(fmt::format("stepfuse: the allocator's release failed, and {} bytes may be lost", bytes_));
  }
}

}  // namespace stepfuse
