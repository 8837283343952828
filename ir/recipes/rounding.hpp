// Rounds to the gradient's storage type and back, if asked: this is what peers compute that write the
// gradient back in place after unscaling and clipping. Knows ir only.
#pragma once

#include "ir/recipes/context.hpp"

namespace stepfuse::recipes {

inline Value round_like_gradient(Context& c, Value g, BufferRef grad) {
  bool wide = c.settings.options.grad == DTypeSet(DType::f32);
  if (!c.settings.options.round_grad || wide) return g;
  Value rounded = c.b.cast_to_buffer(g, grad).named("g_rounded");
  return c.b.cast(rounded, DType::f32).named("g_wide");
}

}  // namespace stepfuse::recipes
