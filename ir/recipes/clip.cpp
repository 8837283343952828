// Norm of the gradients and clipping: two classic stages. Knows ir only.
#include "ir/recipes/gradient.hpp"
#include "ir/recipes/rounding.hpp"

namespace stepfuse::recipes {
namespace {

Value own_norm(Context& c, Value g) {
  Domain domain = c.settings.options.clip_per_group ? Domain::group : Domain::step;
  c.stage("norm");
  switch (c.settings.options.clip) {
    case Clip::l1:
      return c.b.reduce(Op::reduce_add, c.if_counted(abs(g).named("g_size")), domain).named("sum");
    case Clip::inf:
      return c.b.reduce(Op::reduce_max, c.if_counted(abs(g).named("g_size")), domain)
          .named("g_largest");
    default:
      return sqrt(
          c.b.reduce(Op::reduce_add, c.if_counted((g * g).named("g_square")), domain).named("sum"));
  }
}

// One bool of the step domain, also where there is a norm for each group.
Value any(Context& c, Value v) {
  return v.type().domain == Domain::step ? v : c.b.reduce(Op::reduce_any, v).named("any_norm");
}

}  // namespace

void measure_norm(Context& c, Gradient& gradient, Verdict& verdict) {
  if (!c.settings.norm) return;
  bool external = c.settings.options.external_norm;
  verdict.norm = external ? c.arg("external_norm") : own_norm(c, gradient.value).named("norm");
  if (c.settings.options.clip == Clip::inf && !external) {
    // A maximum over nothing is -inf; a norm is at least 0. NaN stays.
    verdict.norm = max(verdict.norm, c.f32(0)).named("norm");
  }
  if (verdict.found_inf) {
    Value overflow = any(c, (!isfinite(verdict.norm).named("norm_finite")).named("norm_nonfinite"));
    verdict.norm_overflow =
        (overflow & (!verdict.found_inf).named("all_finite")).named("norm_overflow");
    if (c.settings.options.skip_norm) {
      Value above = any(c, (c.arg32("skip_norm") < verdict.norm).named("above"));
      Value unusable = (verdict.found_inf | verdict.norm_overflow).named("unusable");
      verdict.over_threshold = (above & (!unusable).named("usable")).named("over_threshold");
    }
  }
}

void clip_gradient(Context& c, Gradient& gradient, Verdict& verdict) {
  if (c.settings.options.clip == Clip::none) return;
  c.stage("clip");
  if (c.settings.options.clip == Clip::value) {
    Value limit = c.arg32("max_value");
    gradient.value = min(max(gradient.value, (-limit).named("lowest")).named("g_raised"), limit);
    gradient.value.named("g_clipped");
  } else {
    // torch.nn.utils.clip_grad_norm_: max_norm * (1 / (norm + 1e-6)), at most 1, always applied.
    Value inverse = rcp((verdict.norm + c.f32(1e-6)).named("norm_plus")).named("inv_norm");
    Value coefficient = (inverse * c.arg32("max_norm")).named("clip_ratio");
    verdict.clip_coef = min(coefficient, c.f32(1)).named("clip_coef");
    gradient.value = (gradient.value * verdict.clip_coef).named("g_clipped");
  }
  gradient.value = round_like_gradient(c, gradient.value, gradient.buffer);
}

}  // namespace stepfuse::recipes
