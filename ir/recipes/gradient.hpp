// Turns the stored gradient into the f32 gradient that the optimizer reads: unscale, finite check, norm,
// clip. Knows ir only.
#pragma once

#include <utility>
#include <vector>

#include "ir/recipes/context.hpp"

namespace stepfuse::recipes {

// Facts about the step's gradients. They are unset if no option needs them.
struct Verdict {
  Value found_inf;       // bool: some stored gradient is inf or NaN
  Value first_bad;       // i32: the first tensor with one; arbitrary if there is none
  Value norm;            // f32 per step or group, before clipping
  Value norm_overflow;   // bool: all gradients are finite, but the norm is not
  Value over_threshold;  // bool: norm above arg skip_norm
  Value clip_coef;       // f32, as fine as the norm
  std::vector<std::pair<StateRef, Value>> averages;  // kept by clipping if the step is good
};

struct Gradient {
  BufferRef buffer;
  Value value;  // f32
};

// 8-bit gradients have one number per tensor, like TransformerEngine's scale_inv.
inline ArgSpec grad_scale_arg() { return {"grad_scale_inv", 1, {DType::f32, per::tensor}}; }

// Loads the gradient, undoes the scale of its storage, and multiplies by 1 / loss scale. found_inf is taken
// from the value before that multiplication.
Gradient load_gradient(Context& c, Verdict& verdict);
void measure_norm(Context& c, Gradient& gradient, Verdict& verdict);
void clip_gradient(Context& c, Gradient& gradient, Verdict& verdict);

}  // namespace stepfuse::recipes
