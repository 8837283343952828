// Options --orientation and --scale-layout: the copies of weights and their scales in other orders. Knows ir only.
#pragma once

#include <stepfuse/program.hpp>
#include <stepfuse/recipe_options.hpp>

namespace stepfuse::recipes {

// Adds the buffers that have the values of @weight and @weight_scale in other orders. Throws Error{usage} if the step
// has no such values. The caller verifies the result.
Program with_orders(Program program, const RecipeOptions& options);

}  // namespace stepfuse::recipes
