// The interpreter as a device. Knows ir and the backend interface.
#pragma once

#include <memory>

#include "runtime/device/backend.hpp"

namespace stepfuse {

// `memory`: where the step's arrays and its own block are. What the host cannot reach is copied to it
// for each step and back.
std::unique_ptr<Backend> make_interpreter_backend(std::shared_ptr<DeviceMemory> memory,
                                                  bool is_host);

}  // namespace stepfuse
