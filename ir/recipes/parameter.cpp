// The parameter before and after the step. Knows ir and fmt.
#include "ir/recipes/parameter.hpp"

#include <limits>

#include <fmt/format.h>

#include "ir/recipes/numerics.hpp"

namespace stepfuse::recipes {

Parameter declare_parameter(Context& c, Access access) {
  const RecipeOptions& o = c.settings.options;
  // A weight in a format is f32 here, and gets its parts when the step is whole (with_weights).
  bool in_format = c.settings.weight_format.has_value();
  DType dtype =
      !in_format && (o.master == Master::f32 || o.weight_rounding) ? c.settings.model : DType::f32;
  Parameter p;
  p.weight = c.b.buffer("weight", dtype, o.master == Master::f32 ? Access::out : access);
  if (o.master == Master::f32) {
    p.master = c.b.buffer("master", DType::f32, Access::inout);
    if (!c.settings.has_scale_arrays()) c.b.init_copy(p.master, p.weight);
  }
  return p;
}

void load_parameter(Context& c, Parameter& p) {
  const RecipeOptions& o = c.settings.options;
  c.weight_buffer = o.master == Master::f32 ? p.master : p.weight;
  if (o.weight_rounding != WeightRounding::kahan) {
    c.weight = c.b.load(c.weight_buffer).named("w");
    return;
  }
  c.weight = c.b.cast(c.b.load(c.weight_buffer).named("w_in"), DType::f32).named("w");
  p.compensation = c.declare_and_load("kahan", c.settings.model);
}

namespace {

// As optimi and others do it: the step is added to what earlier ones left, and the sum to the weight.
Value store_compensated(Context& c, Parameter& p, Value new_weight) {
  DType dtype = c.settings.model;
  auto rounded = [&](Value v) { return c.b.cast(c.b.cast(v, dtype), DType::f32); };
  Value step = (new_weight - c.weight).named("w_step");
  Value all = rounded(p.compensation.value + step).named("w_step_all");
  Value sum = (c.weight + all).named("w_sum");
  Value stored = c.b.cast(sum, dtype).named("w_stored");
  c.b.store(p.weight, stored, c.applied);
  Value lost = rounded(c.weight - c.b.cast(stored, DType::f32)).named("w_lost");
  c.update(p.compensation, (all + lost).named("kahan_new"));
  p.new_weight = sum;
  p.carried = all;
  return sum;
}

}  // namespace

Value store_parameter(Context& c, Parameter& p, Value new_weight) {
  if (c.settings.options.weight_rounding == WeightRounding::kahan) {
    return store_compensated(c, p, new_weight);
  }
  if (c.settings.options.weight_rounding == WeightRounding::stochastic) {
    c.random = {c.seed().id, c.count().id};
  }
  c.b.store(c.weight_buffer, new_weight, c.applied);
  p.new_weight = new_weight;
  return new_weight;
}

// As torch.optim.swa_utils averages: ema + (1 - decay) * (weight - ema). The standard profile
// averages the weights of good steps, beginning with those before the first. AveragedModel knows of
// no bad steps: its first update copies, and later ones average the weights as they are.
void update_ema(Context& c, Value new_weight) {
  if (!c.settings.options.ema) return;
  c.stage("ema");
  StoredValue ema = c.declare_and_load("ema", DType::f32);
  c.b.init_copy(ema.buffer, c.weight_buffer);
  Value rest = (c.f64(1) - c.arg("ema_decay")).named("ema_rest");
  if (!c.settings.torch())
    return c.update(ema, lerp(c, ema.value, new_weight, rest).named("ema_new"));
  StateRef averaged = c.b.state("n_averaged", {DType::i64, per::step});
  Value before = c.b.read(averaged).named("averages");
  Value left = c.applied ? c.b.select(c.applied, new_weight, c.weight).named("w_left") : new_weight;
  Value first = eq(before, c.i64(0)).named("first_average");
  Value mean = lerp(c, ema.value, left, rest).named("ema_mean");
  c.b.store(ema.buffer, c.b.select(first, left, mean).named("ema_new"));
  c.b.write(averaged, (before + c.i64(1)).named("averages_new"));
}

namespace {

StateRef of_tensors(Context& c, const std::string& name, float first) {
  return c.b.state(name, {DType::f32, per::tensor}, false, first);
}

// Returns the scale that maps the largest weight to the type's largest number, or `otherwise` if there is no such
// scale.
Value scale_to_largest(Context& c, Value widest, Value otherwise) {
  Value highest = c.f32(c.settings.model == DType::f8e4m3 ? 448 : 57344);
  Value most = c.f32(std::numeric_limits<float>::max());
  Value wanted = min(highest / widest, most);
  Value is_positive = c.f32(0) < widest;
  Value usable = (isfinite(widest) & is_positive).named("amax_is_usable");
  return c.b.select(usable, wanted, otherwise);
}

// TransformerEngine's delayed scaling without a margin: the copy has the scale that earlier steps
// left, and this step's largest weight counts from the next on. Where the largest is 0, infinite or
// NaN the scale stays.
void store_with_delayed(Context& c, const Parameter& p, Value new_weight) {
  constexpr int kHistory = 16;
  StateRef scale_state = of_tensors(c, "copy_scale", 1);
  Value scale = c.b.read(scale_state).named("copy_scale");
  Value scaled = (new_weight * scale).named("w_scaled");
  c.b.store(p.weight, c.b.cast(scaled, c.settings.model).named("w_copy"), c.applied);
  c.b.write(of_tensors(c, "copy_scale_inv", 1), rcp(scale).named("copy_scale_inv"), c.applied);

  Value newest = c.b.reduce(Op::reduce_max, abs(new_weight).named("w_size"), per::tensor);
  Value widest = newest.named("amax_0");
  for (int age = 1; age < kHistory; ++age) {
    std::string name = fmt::format("amax_{}", age);
    StateRef state = of_tensors(c, name, 0);
    Value before = c.b.read(state).named(name);
    c.b.write(state, newest, c.applied);
    newest = before;
    widest = max(widest, before).named(fmt::format("amax_of_{}", age + 1));
  }
  c.b.write(scale_state, scale_to_largest(c, widest, scale).named("copy_scale_next"), c.applied);
}

}  // namespace

void store_copy(Context& c, const Parameter& p, Value new_weight) {
  if (c.settings.options.master != Master::f32) return;
  c.stage("copy");
  if (c.settings.options.copy_scale == CopyScale::delayed) {
    return store_with_delayed(c, p, new_weight);
  }
  c.b.store(p.weight, c.b.cast_to_buffer(new_weight, p.weight).named("w_copy"), c.applied);
}

// Also after a step that was skipped: the next backward pass starts from nothing.
void zero_gradient(Context& c, const Gradient& g) {
  if (!c.settings.options.zero_grad) return;
  c.stage("zero_grad");
  c.b.store(g.buffer, c.b.cast_to_buffer(c.f32(0), g.buffer));
}

}  // namespace stepfuse::recipes
