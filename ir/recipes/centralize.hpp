// Centralized gradients, a classic stage. Knows ir only.
#pragma once

#include "ir/recipes/context.hpp"

namespace stepfuse::recipes {

// Returns the gradient minus the mean of its row (Yong et al., 2020: for a convolution, a row is an output
// channel). A tensor of one row stays as it is, because biases and other vectors have one row.
inline Value centralize(Context& c, Value g) {
  if (!c.settings.options.centralize) return g;
  c.stage("centralize");
  Value columns = c.b.column_count().named("g_columns");
  Value has_rows = (columns < c.b.element_count()).named("g_has_rows");
  Value sum = c.b.reduce(Op::reduce_add, g, per::row).named("g_row_sum");
  Value mean = (sum / c.b.cast(columns, DType::f32)).named("g_row_mean");
  return c.b.select(has_rows, (g - mean).named("g_off"), g).named("g_centralized");
}

}  // namespace stepfuse::recipes
