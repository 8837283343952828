// The CPU as a device. Knows the CPU kernel and the backend interface.
#pragma once

#include <memory>

#include "runtime/device/backend.hpp"

namespace stepfuse {

std::unique_ptr<Backend> make_cpu_backend(const Device& device);

}  // namespace stepfuse
