// What a step's text declares or computes and nothing needs. Knows ir only.
#pragma once

#include <vector>

#include "ir/program/verifier.hpp"

namespace stepfuse {

// Of a valid program: values that no effect depends on, the last of a chain only, and buffers and
// states that are never used. No faults: what is left over is removed before a kernel is made.
std::vector<Diagnostic> find_unused(const Program& program);

}  // namespace stepfuse
