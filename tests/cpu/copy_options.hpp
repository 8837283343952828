// What a step of scaled 8-bit copies is made with, where its tests need nothing else. Knows the recipes.
#pragma once

#include <stepfuse/recipes.hpp>

namespace stepfuse::testing {

// Not finite numbers reach the masters, and so the copies.
inline RecipeOptions options_of(DType model, CopyScale scale) {
  return {.master = true,
          .model = model,
          .copy_scale = scale,
          .check = true,
          .on_nonfinite = OnNonfinite::propagate};
}

}  // namespace stepfuse::testing
