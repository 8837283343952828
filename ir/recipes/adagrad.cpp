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
  Value before = c.b.cast(c.count_before(), DType::f64);
  Value rate = c.arg("lr") / (c.f64(1) + before * c.arg("lr_decay"));
  Value step_size = c.narrow(-rate).named("step_size");
  return w + (step_size * g) / (sqrt(s) + c.arg32("eps"));
}

}  // namespace

const Optimizer kAdagrad = {
    "adagrad", "Adagrad, with a decaying learning rate", WeightDecay::l2, args, 0, formula, {}};

}  // namespace stepfuse::recipes
