// Adam (Kingma and Ba, 2015), AdamW (Loshchilov and Hutter, 2019) and AMSGrad (Reddi et al., 2018).
// Knows ir only.
#include "ir/recipes/numerics.hpp"
#include "ir/recipes/optimizer.hpp"

namespace stepfuse::recipes {
namespace {

std::vector<ArgSpec> args(const Settings&) {
  return {{"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}};
}

// As torch.optim rounds: bias corrections in f64, everything per element in f32.
Value torch_formula(Context& c) {
  Value w = decay_weight(c);
  Value g = add_l2_decay(c, c.gradient);

  Kept exp_avg = c.moment("exp_avg");
  Kept exp_avg_sq = c.moment("exp_avg_sq");
  Value m = lerp(c, exp_avg.value, g, (c.f64(1) - c.arg("beta1")).named("rest1")).named("m");
  Value v = average_square(c, exp_avg_sq.value, g, c.arg("beta2")).named("v");
  c.update(exp_avg, m);
  c.update(exp_avg_sq, v);

  if (c.settings.options.amsgrad) {
    Kept max_exp_avg_sq = c.moment("max_exp_avg_sq");
    v = max(max_exp_avg_sq.value, v).named("v_max");
    c.update(max_exp_avg_sq, v);
  }

  // 1 - beta^t
  auto correction = [&](Value beta) {
    return (c.f64(1) - powi(beta, c.count()).named("beta_t")).named("correction");
  };
  Value rate = (c.arg("lr") / correction(c.arg("beta1"))).named("rate");
  Value step_size = c.narrow((-rate).named("step_size_f64")).named("step_size");
  Value root = sqrt(correction(c.arg("beta2"))).named("correction_root_f64");
  Value narrow_root = c.narrow(root).named("correction_root");
  Value scaled = (sqrt(v).named("v_root") / narrow_root).named("v_corrected");
  Value denominator = (scaled + c.arg32("eps")).named("denominator");
  return w + ((step_size * m).named("numerator") / denominator).named("update");
}

// As Apex' FusedAdam rounds, read without contraction: hyperparameters narrowed first, moments
// corrected per element, the decay added to the update.
Value apex_formula(Context& c) {
  Value b1 = c.arg32("beta1");
  Value b2 = c.arg32("beta2");
  Value one = c.f32(1);
  Value w = c.weight;
  Value g = c.gradient;
  Value wd = c.settings.weight_decay == WeightDecay::none ? Value{} : c.arg32("weight_decay");
  if (c.settings.weight_decay == WeightDecay::l2) g = (g + (wd * w).named("decay")).named("g_l2");

  Kept exp_avg = c.moment("exp_avg");
  Kept exp_avg_sq = c.moment("exp_avg_sq");
  Value share1 = ((one - b1).named("rest1") * g).named("g_share");
  Value m = ((b1 * exp_avg.value).named("kept") + share1).named("m");
  Value share2 = (((one - b2).named("rest2") * g).named("g_share") * g).named("g_square_share");
  Value v = ((b2 * exp_avg_sq.value).named("kept") + share2).named("v");
  c.update(exp_avg, m);
  c.update(exp_avg_sq, v);

  auto correction = [&](Value beta) {
    Value t = c.count();
    Value beta_t = powi(c.b.cast(beta, DType::f64).named("beta_f64"), t).named("beta_t");
    return c.narrow((c.f64(1) - beta_t).named("correction_f64")).named("correction");
  };
  Value m_hat = (m / correction(b1)).named("m_hat");
  Value v_hat = (v / correction(b2)).named("v_hat");
  Value eps = c.arg32("eps");
  Value denominator = (sqrt(v_hat).named("v_root") + eps).named("denominator");
  Value update = (m_hat / denominator).named("update");
  if (c.settings.weight_decay == WeightDecay::decoupled) {
    update = (update + (wd * w).named("decay")).named("update_decayed");
  }
  return w - (c.arg32("lr") * update).named("change");
}

Value formula(Context& c) {
  bool apex = c.settings.options.profile == Profile::apex;
  return apex ? apex_formula(c) : torch_formula(c);
}

}  // namespace

const Optimizer kAdam = {"adam",
                         "Adam; weight decay is L2 (added to the gradient)",
                         WeightDecay::l2,
                         args,
                         0,
                         formula,
                         {"amsgrad"}};
const Optimizer kAdamw = {
    "adamw",    "Adam with decoupled weight decay", WeightDecay::decoupled, args, 0.01, formula,
    {"amsgrad"}};

}  // namespace stepfuse::recipes
