// Stochastic gradient descent, with momentum (Polyak, 1964) and Nesterov's variant, as
// torch.optim.SGD defines and rounds it. Knows ir only.
#include "ir/recipes/numerics.hpp"
#include "ir/recipes/optimizer.hpp"

namespace stepfuse::recipes {
namespace {

std::vector<ArgSpec> args(const Settings& s) {
  std::vector<ArgSpec> list = {{"lr", 1e-3}};
  if (s.options.momentum) {
    list.push_back({"momentum", 0.9});
    list.push_back({"dampening", 0});
  }
  return list;
}

Value formula(Context& c) {
  Value w = decay_weight(c);
  Value g = add_l2_decay(c, c.gradient);
  if (c.settings.options.momentum) {
    Kept buffer = c.moment("momentum_buffer");
    Value momentum = c.arg32("momentum");
    Value share = c.narrow((c.f64(1) - c.arg("dampening")).named("share_f64")).named("share");
    // A tensor's first gradient fills the buffer undamped.
    Value zero = c.i64(0);
    Value first = eq(c.count_before(), zero).named("first");
    Value kept = (buffer.value * momentum).named("kept");
    Value m = c.b.select(first, g, fma(share, g, kept).named("m_next")).named("m");
    c.update(buffer, m);
    g = c.settings.options.nesterov ? fma(m, momentum, g).named("g_ahead") : m;
  }
  return fma(g, (-c.arg32("lr")).named("descent"), w);
}

}  // namespace

const Optimizer kSgd = {"sgd",
                        "stochastic gradient descent, with --momentum and --nesterov",
                        WeightDecay::l2,
                        args,
                        0,
                        formula,
                        {"momentum", "nesterov"}};

}  // namespace stepfuse::recipes
