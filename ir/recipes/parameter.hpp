// The parameter before and after the step: f32, or f32 master weights with a low-precision copy;
// its moving average; zeroed gradients. Knows ir only.
#pragma once

#include "ir/recipes/gradient.hpp"

namespace stepfuse::recipes {

struct Parameter {
  BufferRef weight;  // f32 inout; with master weights the copy, out
  BufferRef master;
};

Parameter declare_parameter(Context& c);
void load_parameter(Context& c, const Parameter& p);
void store_parameter(Context& c, Value new_weight);
void update_ema(Context& c, Value new_weight);
void store_copy(Context& c, const Parameter& p, Value new_weight);
void zero_gradient(Context& c, const Gradient& g);

}  // namespace stepfuse::recipes
