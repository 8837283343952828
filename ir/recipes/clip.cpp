// The norm of the gradients, and clipping: two classic stages. Knows ir only.
#include <limits>
#include <string>

#include "ir/recipes/gradient.hpp"
#include "ir/recipes/rounding.hpp"

namespace stepfuse::recipes {
namespace {

Value own_norm(Context& c, Value g) {
  Granularity granularity = c.settings.options.clip_per_group ? per::group : per::step;
  c.stage("norm");
  switch (c.settings.options.clip) {
    case Clip::l1:
      return c.b.reduce(Op::reduce_add, c.if_counted(abs(g).named("g_size")), granularity)
          .named("sum");
    case Clip::inf:
      return c.b.reduce(Op::reduce_max, c.if_counted(abs(g).named("g_size")), granularity)
          .named("g_largest");
    default:
      return sqrt(c.b.reduce(Op::reduce_add, c.if_counted((g * g).named("g_square")), granularity)
                      .named("sum"));
  }
}

// Returns one bool per step, even if there is one norm per group.
Value any(Context& c, Value v) {
  return v.type().at == per::step ? v : c.b.reduce(Op::reduce_any, v).named("any_norm");
}

constexpr double kNone = std::numeric_limits<double>::infinity();  // initial value of an average

// A number that clipping keeps, with its value before the step.
struct Average {
  StateRef state;
  Value before;
};
Average average(Context& c, const std::string& name, Type type, double initial = 0) {
  StateRef state = c.b.state(name, type, false, initial);
  return {state, c.b.read(state).named(name + "_in")};
}

// torch.nn.utils.clip_grad_norm_: max_norm * (1 / (norm + 1e-6)), at most 1, always applied.
Value by_max_norm(Context& c, Value norm) {
  Value inverse = rcp((norm + c.f32(1e-6)).named("norm_plus")).named("inv_norm");
  Value coefficient = (inverse * c.arg32("max_norm")).named("clip_ratio");
  return min(coefficient, c.f32(1)).named("clip_coef");
}

// ZClip (Kumar et al., 2025): a norm that is z > clip_z standard deviations above its mean is clipped to
// clip_z / z of them, so that more unusual norms become smaller. Mean and variance start from the first
// clip_warmup norms, which are clipped to max_norm.
Value by_z_score(Context& c, Verdict& verdict) {
  constexpr Type kF64 = {DType::f64, per::step};
  Average count = average(c, "clip_count", {DType::i64, per::step});
  Average mean = average(c, "clip_mean", kF64);
  Average variance = average(c, "clip_variance", kF64);
  Value norm = c.b.cast(verdict.norm, DType::f64).named("norm_f64");
  Value before = c.b.cast(count.before, DType::f64).named("clip_norms");
  Value warm = (before < c.arg("clip_warmup")).named("clip_warms_up");

  Value deviation = sqrt(variance.before).named("clip_deviation");
  Value apart = (norm - mean.before).named("clip_apart");
  Value z = (apart / (deviation + c.f64(1e-6)).named("clip_unit")).named("clip_score");
  Value kept = (c.arg("clip_z") / z).named("clip_kept");
  Value bound = (mean.before + c.arg("clip_z") * deviation * kept).named("clip_bound");
  Value unusual = (c.arg("clip_z") < z).named("clip_unusual");
  Value target = c.b.select(unusual, min(bound, norm), norm).named("clip_target");

  // Welford's steps for the first norms, then moving averages of the clipped norms.
  Value number = (before + c.f64(1)).named("clip_number");
  Value first_mean = (mean.before + (apart / number)).named("clip_first_mean");
  Value spread = (apart * (norm - first_mean)).named("clip_spread");
  Value first_variance =
      ((variance.before * before + spread) / number).named("clip_first_variance");
  Value keep = c.arg("clip_decay");
  Value give = (c.f64(1) - keep).named("clip_give");
  Value mean_gain = target * give;
  Value next_mean = (mean.before * keep + mean_gain).named("clip_next_mean");
  Value off = (target - next_mean).named("clip_off");
  Value variance_gain = off * off * give;
  Value next_variance = (variance.before * keep + variance_gain).named("clip_next_variance");
  verdict.averages = {{count.state, (count.before + c.i64(1)).named("clip_count_next")},
                      {mean.state, c.b.select(warm, first_mean, next_mean)},
                      {variance.state, c.b.select(warm, first_variance, next_variance)}};
  Value by_score = c.narrow((target / (norm + c.f64(1e-6))).named("clip_by_score"));
  Value coefficient = c.b.select(unusual, by_score, c.f32(1)).named("clip_by_z");
  return c.b.select(warm, by_max_norm(c, verdict.norm), coefficient).named("clip_used");
}

// AdaGC (Wang et al., 2025): a tensor's norm is clipped to clip_growth times its moving average. In the
// first clip_warmup steps all gradients are clipped to max_norm, and the average is the smallest norm so
// far.
Value by_own_average(Context& c, Value g, Verdict& verdict) {
  Average average = recipes::average(c, "clip_average", {DType::f64, per::tensor}, kNone);
  Value square = c.b.reduce(Op::reduce_add, (g * g).named("own_square"), per::tensor);
  Value norm = c.b.cast(sqrt(square.named("own_sum")).named("own_norm"), DType::f64);
  Value warm = (c.b.cast(c.count(), DType::f64).named("clip_step") <= c.arg("clip_warmup"))
                   .named("clip_warms_up");
  Value global = by_max_norm(c, verdict.norm);
  Value bound = (c.arg("clip_growth") * max(average.before, c.f64(1e-8))).named("clip_bound");
  Value one = c.f64(1);
  Value own =
      min((bound / max(norm.named("own_norm_f64"), c.f64(1e-8))).named("clip_own_ratio"), one)
          .named("clip_own");
  Value used = c.b.select(warm, c.b.cast(global, DType::f64).named("clip_global"), own);
  Value clipped = (norm * used.named("clip_used")).named("clip_norm");
  Value keep = c.arg("clip_decay");
  Value gain = clipped * (one - keep);
  Value next = (average.before * keep + gain).named("clip_average_moved");
  verdict.averages = {
      {average.state,
       c.b.select(warm, min(average.before, clipped), next).named("clip_average_next")}};
  return c.narrow(used).named("clip_by_average");
}

// Adaptive gradient clipping (Brock et al., 2021) in the operations of timm's adaptive_clip_grad. A row's
// norm is clipped to clip_factor times the norm of its weights, which is at least clip_eps.
Value by_weights(Context& c, Value g) {
  auto norm = [&](Value v, const std::string& name) {
    Value square = (v * v).named(name + "_square");
    return sqrt(c.b.reduce(Op::reduce_add, square, per::row).named(name + "_sum"));
  };
  Value weights = max(norm(c.weight, "row_weight").named("row_weight_norm"), c.arg32("clip_eps"));
  Value bound = (weights * c.arg32("clip_factor")).named("clip_bound");
  Value own = norm(g, "row_g").named("row_norm");
  Value ratio = (bound / max(own, c.f32(1e-6)).named("row_norm_above")).named("clip_ratio");
  return c.b.select((own < bound).named("clip_leaves"), c.f32(1), ratio).named("clip_of_row");
}

}  // namespace

void measure_norm(Context& c, Gradient& gradient, Verdict& verdict) {
  if (!c.settings.norm) return;
  bool external = c.settings.options.external_norm;
  verdict.norm = external ? c.arg("external_norm") : own_norm(c, gradient.value).named("norm");
  if (c.settings.options.clip == Clip::inf && !external) {
    // A maximum over nothing is -inf, but a norm is at least 0. NaN stays NaN.
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
  } else if (c.settings.clips_rows()) {
    gradient.value = (gradient.value * by_weights(c, gradient.value)).named("g_clipped");
  } else {
    Clip clip = c.settings.options.clip;
    verdict.clip_coef = clip == Clip::zclip   ? by_z_score(c, verdict)
                        : clip == Clip::adagc ? by_own_average(c, gradient.value, verdict)
                                              : by_max_norm(c, verdict.norm);
    gradient.value = (gradient.value * verdict.clip_coef).named("g_clipped");
  }
  gradient.value = round_like_gradient(c, gradient.value, gradient.buffer);
}

}  // namespace stepfuse::recipes
