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
    // The first gradient that meets a momentum fills the buffer undamped; a momentum of 0 leaves the
    // buffer alone.
    StateRef begun_state = c.b.state("momentum_begun", {DType::boolean, Domain::tensor});
    Value begun = c.b.read(begun_state).named("begun");
    Value plain = eq(c.arg("momentum"), c.f64(0)).named("no_momentum");
    Value kept = (buffer.value * momentum).named("kept");
    Value first = (plain | (!begun).named("first")).named("undamped");
    Value m = c.b.select(first, g, fma(share, g, kept).named("m_next")).named("m");
    Value used = (!plain).named("has_momentum");
    c.update(buffer, m, used);
    c.b.write(begun_state, c.b.constant(DType::boolean, 1).named("yes"), c.applied_and(used));
    if (c.settings.options.nesterov) {
      Value ahead = fma(m, momentum, g).named("m_ahead");
      g = c.b.select(plain, g, ahead).named("g_ahead");
    } else {
      g = m;
    }
    c.count();
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
