// Small formulas that several recipes share. Knows ir only.
#include "ir/recipes/numerics.hpp"

namespace stepfuse::recipes {

Value lerp(Context& c, Value a, Value b, Value weight) {
  Value w = c.narrow(weight);
  Value small = abs(w) < c.f32(0.5);
  Value coefficient = c.b.select(small, w, w - c.f32(1));
  return fma(coefficient, b - a, c.b.select(small, a, b));
}

Value average_square(Context& c, Value average, Value g, Value decay) {
  Value rest = c.narrow(c.f64(1) - decay);
  return fma(rest * g, g, average * c.narrow(decay));
}

Value add_l2_decay(Context& c, Value gradient) {
  if (c.settings.weight_decay != WeightDecay::l2) return gradient;
  return fma(c.weight, c.arg32("weight_decay"), gradient);
}

Value decay_weight(Context& c) {
  if (c.settings.weight_decay != WeightDecay::decoupled) return c.weight;
  return c.weight * c.narrow(c.f64(1) - c.arg("lr") * c.arg("weight_decay"));
}

}  // namespace stepfuse::recipes
