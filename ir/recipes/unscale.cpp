// Unscaling and the finite check: the first classic stage. Knows ir only.
#include <limits>

#include "ir/recipes/accumulate.hpp"
#include "ir/recipes/gradient.hpp"
#include "ir/recipes/guard.hpp"
#include "ir/recipes/loss_scale.hpp"
#include "ir/recipes/rounding.hpp"

namespace stepfuse::recipes {
namespace {

// Returns the factor that undoes the loss scale and averages an accumulated gradient: one reciprocal in
// f64, narrowed once, like torch's GradScaler. It is unset if there is nothing to undo.
Value unscale_factor(Context& c) {
  Value divisor;
  if (c.settings.scaled()) divisor = c.b.cast(read_scale(c), DType::f64).named("scale_f64");
  if (c.settings.options.accumulated) {
    Value count = c.settings.options.window ? window_size(c) : c.arg("accumulation");
    divisor = divisor ? (divisor * count).named("divisor") : count;
  }
  return divisor ? c.narrow(rcp(divisor).named("inv_scale_f64")).named("inv_scale") : Value{};
}

// GradScaler with a fused torch optimizer and without unscale_ leaves the unscaling to the kernel, which
// divides.
bool divides(const Settings& s) {
  return s.options.profile == Profile::torch_fused && s.options.clip == Clip::none &&
         !s.options.accumulated && s.scaled();
}

Value find_bad(Context& c, Value bad) {
  if (!c.settings.options.all_reduce) {
    return c.b.reduce(Op::reduce_any, bad).named("found_inf");
  }
  // Use the dtype and operation of the norm, so that one all-reduce serves both.
  Op op = c.settings.options.clip == Clip::inf ? Op::reduce_max : Op::reduce_add;
  Value one = c.b.select(bad, c.f32(1), c.f32(0)).named("nonfinite_one");
  return (c.f32(0) < c.b.reduce(op, one).named("nonfinite_sum")).named("found_inf");
}

}  // namespace

Gradient load_gradient(Context& c, Verdict& verdict) {
  const RecipeOptions& o = c.settings.options;
  Gradient g;
  g.buffer = c.b.buffer("grad", o.grad, o.zero_grad ? Access::inout : Access::in);
  bool unscales = c.settings.scaled() || o.accumulated;
  if (unscales) {
    c.stage("unscale");
  } else if (c.settings.check || c.settings.norm) {
    c.stage("check");
  } else {
    c.stage("optimizer");
  }
  bool reduces =
      (c.settings.check && !o.external_found_inf) || (c.settings.norm && !o.external_norm);
  if (o.tensor_flags && reduces) c.counted = read_flag(c, "counted");
  Value stored = c.b.cast(c.b.load(g.buffer).named("grad"), DType::f32);
  if (o.grad != DTypeSet(DType::f32)) stored.named("grad_f32");
  if (o.grad_scale) stored = (stored * c.arg(grad_scale_arg().name)).named("grad_scaled");
  if (divides(c.settings)) {
    g.value = (stored / read_scale(c)).named("g");
  } else if (unscales) {
    g.value = (stored * unscale_factor(c)).named("g");
  } else {
    g.value = stored;
  }
  if (o.external_found_inf) {
    verdict.found_inf = c.arg("external_found_inf");
  } else if (c.settings.check) {
    // Test the stored value: the product may overflow although the gradient did not, and may be finite
    // although the gradient was not.
    Value bad = (!isfinite(stored).named("finite")).named("nonfinite");
    if (c.counted) bad = (bad & c.counted).named("nonfinite_counted");
    verdict.found_inf = find_bad(c, bad);
    if (o.monitor) {
      Value none = c.i32(std::numeric_limits<int32_t>::max());
      Value index = c.b.select(bad, c.b.tensor_index().named("tensor"), none).named("bad_tensor");
      verdict.first_bad = c.b.reduce(Op::reduce_min, index).named("first_bad");
    }
  }
  if (unscales) g.value = round_like_gradient(c, g.value, g.buffer);
  return g;
}

}  // namespace stepfuse::recipes
