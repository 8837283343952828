// Registers host memory with the driver. Knows the driver.
#include "runtime/cuda/host_access.hpp"

#include <utility>

#include <stepfuse/error.hpp>

namespace stepfuse::cuda {

HostAccess::HostAccess(int ordinal, std::span<char> memory)
    : context_(std::make_shared<Context>(ordinal)), memory_(memory) {
  if (memory_.empty()) return;
  Context::Scope scope(*context_);
  check(driver().cuMemHostRegister(memory_.data(), memory_.size(), kHostPortable | kHostMapped),
        "cuMemHostRegister");
}

HostAccess::HostAccess(HostAccess&& other) noexcept
    : context_(std::move(other.context_)), memory_(std::exchange(other.memory_, {})) {}

HostAccess::~HostAccess() {
  if (memory_.empty()) return;
  try {
    Context::Scope scope(*context_);
    driver().cuMemHostUnregister(memory_.data());
  } catch (const Error&) {
  }
}

}  // namespace stepfuse::cuda
