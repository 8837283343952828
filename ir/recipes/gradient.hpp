// From the stored gradient to the f32 gradient that the optimizer sees: unscale, finite check,
// norm, clip. Knows ir only.
#pragma once

#include <utility>
#include <vector>

#include "ir/recipes/context.hpp"

namespace stepfuse::recipes {

// What was found out about the step's gradients; unset where it was not asked for.
struct Verdict {
  Value found_inf;       // bool: some stored gradient is inf or NaN
  Value first_bad;       // i32: the first tensor with one; any value where there is none
  Value norm;            // f32, step or group domain: before clipping
  Value norm_overflow;   // bool: all finite, but the norm is not
  Value over_threshold;  // bool: norm above arg skip_norm
  Value clip_coef;       // f32, of the norm's domain
  std::vector<std::pair<StateRef, Value>> averages;  // what clipping keeps, if the step is good
};

struct Gradient {
  BufferRef buffer;
  Value value;  // f32
};

// One number for each tensor, as TransformerEngine's scale_inv: what 8-bit gradients need.
inline ArgSpec grad_scale_arg() { return {"grad_scale_inv", 1, {DType::f32, per::tensor}}; }

// Loads the gradient, undoes its storage's own scale, multiplies by 1 / loss scale; notes found_inf from
// the value before the loss scale.
Gradient load_gradient(Context& c, Verdict& verdict);
void measure_norm(Context& c, Gradient& gradient, Verdict& verdict);
void clip_gradient(Context& c, Gradient& gradient, Verdict& verdict);

}  // namespace stepfuse::recipes
