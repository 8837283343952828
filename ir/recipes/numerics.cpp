// Small formulas that several recipes share. Knows ir only.
#include "ir/recipes/numerics.hpp"

namespace stepfuse::recipes {

Value lerp(Context& c, Value a, Value b, Value weight) {
  Value w = c.narrow(weight).named("pull");
  Value half = c.f32(0.5);
  Value small = (abs(w).named("pull_size") < half).named("from_a");
  Value coefficient = c.b.select(small, w, (w - c.f32(1)).named("push")).named("lerp_coef");
  Value base = c.b.select(small, a, b).named("lerp_base");
  return fma(coefficient, (b - a).named("distance"), base);
}

Value average_square(Context& c, Value average, Value g, Value decay) {
  Value rest = c.narrow((c.f64(1) - decay).named("rest_f64")).named("rest");
  Value kept = average * c.narrow(decay).named("keep");
  return fma((rest * g).named("g_share"), g, kept.named("kept"));
}

Value add_l2_decay(Context& c, Value gradient) {
  if (c.settings.weight_decay != WeightDecay::l2) return gradient;
  // Peers skip a decay of 0. The sum would turn an infinite weight into NaN, and a gradient of -0 into +0.
  Value none = eq(c.arg("weight_decay"), c.f64(0)).named("no_decay");
  Value sum = fma(c.weight, c.arg32("weight_decay"), gradient).named("g_decayed");
  return c.b.select(none, gradient, sum).named("g_l2");
}

Value decay_weight(Context& c) {
  if (c.settings.weight_decay != WeightDecay::decoupled) return c.weight;
  Value rate = (c.arg("lr") * c.arg("weight_decay")).named("decay_rate");
  Value factor = c.narrow((c.f64(1) - rate).named("decay_f64")).named("decay");
  return (c.weight * factor).named("w_decayed");
}

}  // namespace stepfuse::recipes
