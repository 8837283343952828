// Finds declarations and values of a step that nothing needs. Knows ir only.
#pragma once

#include <vector>

#include "ir/program/verifier.hpp"

namespace stepfuse {

// Expects a valid program. Returns values that no effect depends on (of a chain only the last), and
// buffers, states and tables that are never used. These are not errors: they are removed before a kernel is
// made.
std::vector<Diagnostic> find_unused(const Program& program);

}  // namespace stepfuse
