// A formula's statements as instructions of a step. Knows ir only.
#pragma once

#include <vector>

#include "ir/formula/ast.hpp"
#include "ir/recipes/context.hpp"

namespace stepfuse::formula {

// From c.gradient and c.weight to the new weight, if it makes one; what the formula keeps is updated, its
// outputs are stored. Throws Error{parse} at the place in its text.
Value lower(const Formula& formula, const std::vector<const Statement*>& statements,
            recipes::Context& c);

}  // namespace stepfuse::formula
