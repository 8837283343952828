// The interpreter as a device. Knows ir and the backend interface.
#pragma once

#include <memory>

#include "runtime/device/backend.hpp"

namespace stepfuse {

// `memory` holds the step's arrays and its own block. Arrays that the host cannot reach are copied to it
// and back for each step.
std::unique_ptr<Backend> make_interpreter_backend(std::shared_ptr<DeviceMemory> memory,
                                                  bool is_host);

}  // namespace stepfuse
