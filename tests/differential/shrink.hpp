// Makes a failing program small. Knows ir.
#pragma once

#include <functional>

#include <stepfuse/program.hpp>

namespace stepfuse::testing {

// The smallest program found that still `fails`; each candidate is valid. Effects are dropped,
// operands take the place of results, predicates, stages and unused declarations go.
Program shrink(Program program, const std::function<bool(const Program&)>& fails);

}  // namespace stepfuse::testing
