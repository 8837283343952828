// RMSprop (Hinton, 2012), centered (Graves, 2013) and with momentum, as torch.optim.RMSprop
// defines and rounds it. Knows ir only.
#include "ir/recipes/numerics.hpp"
#include "ir/recipes/optimizer.hpp"

namespace stepfuse::recipes {
namespace {

std::vector<ArgSpec> args(const Settings& s) {
  std::vector<ArgSpec> list = {{"lr", 1e-2}, {"alpha", 0.99}, {"eps", 1e-8}};
  if (s.options.momentum) list.push_back({"momentum", 0.9});
  return list;
}

Value formula(Context& c) {
  Value w = decay_weight(c);
  Value g = add_l2_decay(c, c.gradient);

  Kept square_avg = c.moment("square_avg");
  Value v = average_square(c, square_avg.value, g, c.arg("alpha")).named("v");
  c.update(square_avg, v);
  if (c.settings.options.centered) {
    Kept grad_avg = c.moment("grad_avg");
    Value mean =
        lerp(c, grad_avg.value, g, (c.f64(1) - c.arg("alpha")).named("rest1")).named("mean");
    c.update(grad_avg, mean);
    v = fma((-mean).named("mean_negated"), mean, v).named("variance");
  }
  Value eps = c.arg32("eps");
  Value denominator = (sqrt(v).named("v_root") + eps).named("denominator");
  Value descent = (-c.arg32("lr")).named("descent");
  c.count();
  if (!c.settings.options.momentum)
    return w + ((descent * g).named("numerator") / denominator).named("update");

  // A momentum of 0 leaves the buffer alone and multiplies by the rate before the division, as without
  // one; both ways share the division.
  Kept buffer = c.moment("momentum_buffer");
  Value plain = eq(c.arg("momentum"), c.f64(0)).named("no_momentum");
  Value one = c.f32(1);
  Value lead = c.b.select(plain, descent, one).named("lead");
  Value scaled = ((lead * g).named("numerator") / denominator).named("g_scaled");
  Value kept = (buffer.value * c.arg32("momentum")).named("kept_m");
  Value m = c.b.select(plain, scaled, (kept + scaled).named("m_next")).named("m");
  c.update(buffer, m, (!plain).named("has_momentum"));
  return fma(m, c.b.select(plain, one, descent).named("trail"), w);
}

}  // namespace

const Optimizer kRmsprop = {"rmsprop",
                            "RMSprop, with --momentum and --centered",
                            WeightDecay::l2,
                            args,
                            0,
                            formula,
                            {"momentum", "centered"}};

}  // namespace stepfuse::recipes
