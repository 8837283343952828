// The parameter before and after the step. Knows ir only.
#include "ir/recipes/parameter.hpp"

#include "ir/recipes/numerics.hpp"

namespace stepfuse::recipes {

Parameter declare_parameter(Context& c) {
  Parameter p;
  if (c.settings.options.master) {
    p.weight = c.b.buffer("weight", c.settings.model, Access::out);
    p.master = c.b.buffer("master", DType::f32, Access::inout);
    c.b.init_copy(p.master, p.weight);
  } else {
    p.weight = c.b.buffer("weight", DType::f32, Access::inout);
  }
  return p;
}

void load_parameter(Context& c, const Parameter& p) {
  c.weight_buffer = c.settings.options.master ? p.master : p.weight;
  c.weight = c.b.load(c.weight_buffer).named("w");
}

void store_parameter(Context& c, Value new_weight) {
  c.b.store(c.weight_buffer, new_weight, c.applied);
}

// As torch.optim.swa_utils averages: ema + (1 - decay) * (weight - ema). The standard profile
// averages the weights of good steps, beginning with those before the first. AveragedModel knows of
// no bad steps: its first update copies, and later ones average the weights as they are.
void update_ema(Context& c, Value new_weight) {
  if (!c.settings.options.ema) return;
  c.stage("ema");
  Kept ema = c.keep("ema", DType::f32);
  c.b.init_copy(ema.buffer, c.weight_buffer);
  Value rest = (c.f64(1) - c.arg("ema_decay")).named("ema_rest");
  if (!c.settings.torch())
    return c.update(ema, lerp(c, ema.value, new_weight, rest).named("ema_new"));
  StateRef averaged = c.b.state("n_averaged", {DType::i64, Domain::step});
  Value before = c.b.read(averaged).named("averages");
  Value left = c.applied ? c.b.select(c.applied, new_weight, c.weight).named("w_left") : new_weight;
  Value first = eq(before, c.i64(0)).named("first_average");
  Value mean = lerp(c, ema.value, left, rest).named("ema_mean");
  c.b.store(ema.buffer, c.b.select(first, left, mean).named("ema_new"));
  c.b.write(averaged, (before + c.i64(1)).named("averages_new"));
}

void store_copy(Context& c, const Parameter& p, Value new_weight) {
  if (!c.settings.options.master) return;
  c.stage("copy");
  c.b.store(p.weight, c.b.cast_to_buffer(new_weight, p.weight).named("w_copy"), c.applied);
}

// Also after a step that was skipped: the next backward pass starts from nothing.
void zero_gradient(Context& c, const Gradient& g) {
  if (!c.settings.options.zero_grad) return;
  c.stage("zero_grad");
  c.b.store(g.buffer, c.b.cast_to_buffer(c.f32(0), g.buffer));
}

}  // namespace stepfuse::recipes
