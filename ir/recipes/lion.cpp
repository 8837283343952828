// Lion (Chen et al., 2023): the sign of an interpolated momentum, decoupled decay. Knows ir only.
#include "ir/recipes/numerics.hpp"
#include "ir/recipes/optimizer.hpp"

namespace stepfuse::recipes {
namespace {

std::vector<ArgSpec> args(const Settings&) {
  return {{"lr", 1e-4}, {"beta1", 0.9}, {"beta2", 0.99}};
}

// -1, 0 or 1; NaN stays.
Value sign(Context& c, Value v) {
  Value zero = c.f32(0);
  Value down = c.f32(-1);
  Value falling = c.b.select((v < zero).named("falls"), down, v).named("not_positive");
  Value up = c.f32(1);
  return c.b.select((zero < v).named("rises"), up, falling);
}

// beta * m + (1 - beta) * g
Value blend(Context& c, std::string_view beta, Value m, Value g) {
  Value rest = c.narrow((c.f64(1) - c.arg(beta)).named("rest_f64")).named("rest");
  Value share = (rest * g).named("g_share");
  return (c.arg32(beta) * m).named("kept") + share;
}

Value formula(Context& c) {
  Value w = decay_weight(c);
  Value g = add_l2_decay(c, c.gradient);

  Kept exp_avg = c.moment("exp_avg");
  Value direction = sign(c, blend(c, "beta1", exp_avg.value, g).named("blend")).named("direction");
  c.update(exp_avg, blend(c, "beta2", exp_avg.value, g).named("m"));

  c.count();
  return w - (c.arg32("lr") * direction).named("update");
}

}  // namespace

const Optimizer kLion = {
    "lion", "Lion: the sign of the interpolated momentum", WeightDecay::decoupled, args, 0, formula,
    {}};

}  // namespace stepfuse::recipes
