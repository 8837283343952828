// Translates a formula's statements to instructions of a step. Knows ir only.
#pragma once

#include <vector>

#include "ir/formula/ast.hpp"
#include "ir/recipes/context.hpp"

namespace stepfuse::formula {

// Starts from c.gradient and c.weight and returns the new weight, if the formula makes one. Updates the
// moments and states of the formula and stores its outputs. Throws Error{parse} with the position in its
// text.
Value lower(const Formula& formula, const std::vector<const Statement*>& statements,
            recipes::Context& c);

}  // namespace stepfuse::formula
