// The interpreter as a device. Knows ir and the backend interface.
#pragma once

#include <memory>

#include "runtime/backend.hpp"

namespace stepfuse {

std::unique_ptr<Backend> make_interpreter_backend();

}  // namespace stepfuse
