// Updates the loss scale by its policies. Knows ir only.
#include "ir/recipes/loss_scale.hpp"

namespace stepfuse::recipes {
namespace {

constexpr Type kStepF64 = {DType::f64, per::step};
constexpr Type kStepI32 = {DType::i32, per::step};

bool has_hysteresis(const RecipeOptions& o) {
  return o.loss_scale == LossScale::apex || o.loss_scale == LossScale::megatron;
}
bool has_minimum(const RecipeOptions& o) {
  return o.scale_bounds || o.loss_scale == LossScale::megatron;
}

struct Shared {
  StateRef ref;
  Value before;
};
Shared shared(Context& c, std::string_view name, DType dtype, double initial = 0) {
  StateRef ref = c.b.state(std::string(name), {dtype, per::step}, true, initial);
  return {ref, c.b.read(ref).named(std::string(name) + "_in")};
}

void write_tracker(Context& c, std::string_view name, const Shared& tracker, Value next) {
  c.b.write(tracker.ref, next);
  StateRef change = c.b.state(change_of(name), kStepI32, true);
  c.b.write(change, (next - tracker.before).named(change_of(name)));
}

Value scaled_by(Context& c, std::string_view factor) {
  Value wide = c.b.cast(c.scale, DType::f64).named("scale_wide");
  return c.narrow((wide * c.arg(factor)).named("scale_times")).named("scale_next");
}

// Returns scale * backoff_factor, but at least the minimum.
Value backed_off(Context& c) {
  Value s = scaled_by(c, "backoff_factor");
  if (has_minimum(c.settings.options)) return max(s, c.arg32("min_scale")).named("scale_floored");
  if (c.settings.options.profile != Profile::standard) return s;
  Value smallest = c.b.constant(DType::f32, 0x1p-126).named("smallest");
  // Below 2^-126 the reciprocal would overflow and make weights infinite. GradScaler continues to 0.
  return c.b.select((s < smallest).named("too_small"), c.scale, s).named("scale_less");
}

// Returns scale * growth_factor, but at most the maximum, and never infinity.
Value grown(Context& c) {
  Value s = scaled_by(c, "growth_factor");
  if (c.settings.options.scale_bounds) s = min(s, c.arg32("max_scale")).named("scale_capped");
  return c.b.select(isfinite(s).named("scale_finite"), s, c.scale).named("scale_more");
}

// If `found`, the overflow rule applies; else if `hold`, nothing changes; else the good-step rule applies.
void update(Context& c, Value found, Value hold) {
  const RecipeOptions& o = c.settings.options;
  Shared tracker = shared(c, "growth_tracker", DType::i32);
  Value count = (tracker.before + c.i32(1)).named("tracker_next");
  Value interval = c.arg("growth_interval");
  // GradScaler tests for equality, so an interval lowered below the count is never reached.
  Value due = (c.settings.torch() ? eq(count, interval) : interval <= count).named("growth_due");

  Value good_scale = c.b.select(due, grown(c), c.scale).named("scale_good");
  Value good_count = c.b.select(due, c.i32(0), count).named("tracker_good");
  Value bad_scale = backed_off(c);

  auto choose = [&](Value on_found, Value on_hold, Value on_good) {
    Value finite = hold ? c.b.select(hold, on_hold, on_good).named("if_finite") : on_good;
    return c.b.select(found, on_found, finite).named("chosen");
  };
  if (has_hysteresis(o)) {
    Shared hysteresis = shared(c, "hysteresis_tracker", DType::i32, 2);
    Value left = (hysteresis.before - c.i32(1)).named("hysteresis_left");
    bad_scale =
        c.b.select((left <= c.i32(0)).named("used_up"), bad_scale, c.scale).named("scale_bad");
    Value full = c.arg("hysteresis");
    Value refilled = o.loss_scale == LossScale::apex
                         ? full
                         : c.b.select(due, full, hysteresis.before).named("hysteresis_good");
    write_tracker(c, "hysteresis_tracker", hysteresis, choose(left, hysteresis.before, refilled));
  }
  c.next_scale = choose(bad_scale, c.scale, good_scale);
  c.b.write(c.scale_state, c.next_scale);
  write_tracker(c, "growth_tracker", tracker, choose(c.i32(0), tracker.before, good_count));
}

}  // namespace

std::vector<ArgSpec> loss_scale_args(const RecipeOptions& o) {
  bool updates = o.loss_scale != LossScale::none && o.loss_scale != LossScale::fixed &&
                 o.scale_role != ScaleRole::member;
  if (!updates) return {};
  std::vector<ArgSpec> args = {{"growth_factor", 2, kStepF64},
                               {"backoff_factor", 0.5, kStepF64},
                               {"growth_interval", 2000, kStepI32}};
  if (has_hysteresis(o)) args.push_back({"hysteresis", 2, kStepI32});
  if (has_minimum(o)) args.push_back({"min_scale", 1, kStepF64});
  if (o.scale_bounds) args.push_back({"max_scale", 0x1p24, kStepF64});
  return args;
}

Value read_scale(Context& c) {
  if (c.scale) return c.scale;
  Shared s = shared(c, "scale", DType::f32, 65536);
  c.scale_state = s.ref;
  return c.scale = s.before.named("scale");
}

void update_loss_scale(Context& c, const Verdict& v) {
  const RecipeOptions& o = c.settings.options;
  if (!c.settings.scaled() || o.loss_scale == LossScale::fixed) return;
  read_scale(c);
  c.stage("scale");
  Value hold = c.settings.skip_overflow ? v.norm_overflow : Value{};
  if (o.scale_role == ScaleRole::owner) return update(c, v.found_inf, hold);

  Shared found = shared(c, "pending_found_inf", DType::boolean);
  Shared held = shared(c, "pending_norm_overflow", DType::boolean);
  Value any_found = v.found_inf ? (found.before | v.found_inf).named("any_found") : found.before;
  Value any_held = hold ? (held.before | hold).named("any_held") : held.before;
  if (o.scale_role == ScaleRole::member) {
    c.b.write(found.ref, any_found);
    c.b.write(held.ref, any_held);
    return;
  }
  update(c, any_found, any_held);
  Value no = c.b.constant(DType::boolean, 0);
  c.b.write(found.ref, no);
  c.b.write(held.ref, no);
}

}  // namespace stepfuse::recipes
