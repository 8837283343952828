// Makes host memory accessible to a CUDA device, for tests and tools whose arrays are on the host. Knows
// the driver.
#pragma once

#include <memory>
#include <span>

#include "runtime/cuda/context.hpp"

namespace stepfuse::cuda {

// Page-locks the memory and maps it at its own address while this object lives. `memory` must consist of
// whole pages. Throws Error{device}.
class HostAccess {
 public:
  HostAccess(int ordinal, std::span<char> memory);
  ~HostAccess();
  HostAccess(HostAccess&&) noexcept;
  HostAccess& operator=(HostAccess&&) = delete;

 private:
  std::shared_ptr<Context> context_;
  std::span<char> memory_;
};

}  // namespace stepfuse::cuda
