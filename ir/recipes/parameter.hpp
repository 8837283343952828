// The parameter before and after the step: f32, f32 master weights with a low-precision copy, or below
// f32 alone; its moving average; zeroed gradients. Knows ir only.
#pragma once

#include "ir/recipes/gradient.hpp"

namespace stepfuse::recipes {

struct Parameter {
  BufferRef weight;  // inout; with master weights the copy, out
  BufferRef master;
  StoredValue compensation;  // what rounding took from the weights, with WeightRounding::kahan
  Value new_weight;          // f32, before it is rounded or encoded; unset until it is stored
  Value carried;             // f32, with WeightRounding::kahan: the compensation and the step
};

// A weight that the step reads only has neither master nor copy.
Parameter declare_parameter(Context& c, Access access);
void load_parameter(Context& c, Parameter& p);
// Returns the new weight in f32, including the part that is stored separately from the weight.
Value store_parameter(Context& c, Parameter& p, Value new_weight);
void update_ema(Context& c, Value new_weight);
void store_copy(Context& c, const Parameter& p, Value new_weight);
void zero_gradient(Context& c, const Gradient& g);

}  // namespace stepfuse::recipes
