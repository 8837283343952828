// Small formulas that several recipes share, with their rounding fixed. Knows ir only.
#pragma once

#include "ir/recipes/context.hpp"

namespace stepfuse::recipes {

// a + w * (b - a), as torch.lerp rounds it: one fused multiply-add, from the nearer end. `weight`
// is f64 and outside the element domain.
Value lerp(Context& c, Value a, Value b, Value weight);

// decay * average + (1 - decay) * g * g with the last product and the sum fused: what torch's
// mul_ and addcmul_ and its fused kernels compute.
Value average_square(Context& c, Value average, Value g, Value decay);

// gradient + weight_decay * weight, fused, for L2 decay; the gradient unchanged otherwise, and where
// weight_decay is 0.
Value add_l2_decay(Context& c, Value gradient);
// weight * (1 - lr * weight_decay) for decoupled decay; the weight unchanged otherwise.
Value decay_weight(Context& c);

}  // namespace stepfuse::recipes
