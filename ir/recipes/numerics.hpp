// Small formulas that several recipes share, with their rounding fixed. Knows ir only.
#pragma once

#include "ir/recipes/context.hpp"

namespace stepfuse::recipes {

// Returns a + w * (b - a), as torch.lerp rounds it: one fused multiply-add, from the nearer end. `weight`
// is f64 and not per element.
Value lerp(Context& c, Value a, Value b, Value weight);

// Returns decay * average + (1 - decay) * g * g with the last product and the sum fused, as torch's mul_
// and addcmul_ and its fused kernels compute it.
Value average_square(Context& c, Value average, Value g, Value decay);

// Returns gradient + weight_decay * weight, fused, for L2 decay. Returns the gradient unchanged for other
// decays, and if weight_decay is 0.
Value add_l2_decay(Context& c, Value gradient);
// Returns weight * (1 - lr * weight_decay) for decoupled decay, and otherwise the weight unchanged.
Value decay_weight(Context& c);

}  // namespace stepfuse::recipes
