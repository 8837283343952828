// Makes options definite and refuses those that contradict each other. Knows ir only.
#pragma once

#include "ir/recipes/optimizer.hpp"

namespace stepfuse::recipes {

// Throws Error{usage} that says what to do.
Settings settle(const Optimizer& optimizer, const RecipeOptions& options);

}  // namespace stepfuse::recipes
