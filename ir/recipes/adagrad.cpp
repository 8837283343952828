// Adagrad (Duchi et al., 2011) with torch.optim.Adagrad's decay of the learning rate and rounding.
// Knows ir only.
#include "ir/recipes/numerics.hpp"
#include "ir/recipes/optimizer.hpp"

namespace stepfuse::recipes {
namespace {

std::vector<ArgSpec> args(const Settings&) {
  return {{"lr", 1e-2}, {"lr_decay", 0}, {"eps", 1e-10}};
}

Value formula(Context& c) {
  Value w = decay_weight(c);
  Value g = add_l2_decay(c, c.gradient);

  Kept sum = c.moment("sum");
  Value s = fma(g, g, sum.value).named("s");
  c.update(sum, s);

  c.count();
  Value before = c.b.cast(c.count_before(), DType::f64).named("t0_f64");
  Value slowing = (before * c.arg("lr_decay")).named("slowing");
  Value slowed = (c.f64(1) + slowing).named("slowed");
  Value rate = (c.arg("lr") / slowed).named("rate");
  Value step_size = c.narrow((-rate).named("step_size_f64")).named("step_size");
  Value eps = c.arg32("eps");
  Value denominator = (sqrt(s).named("s_root") + eps).named("denominator");
  return w + ((step_size * g).named("numerator") / denominator).named("update");
}

}  // namespace

const Optimizer kAdagrad = {
    "adagrad", "Adagrad, with a decaying learning rate", WeightDecay::l2, args, 0, formula, {}};

}  // namespace stepfuse::recipes
