// The usual options for tests of scaled 8-bit copies. Knows the recipes.
#pragma once

#include <stepfuse/recipes.hpp>

namespace stepfuse::testing {

// Values that are not finite reach the masters, and through them the copies.
inline RecipeOptions options_of(DType model, CopyScale scale) {
  return {.master = true,
          .model = model,
          .copy_scale = scale,
          .check = true,
          .on_nonfinite = OnNonfinite::propagate};
}

}  // namespace stepfuse::testing
