// Decides which steps are good, and writes reports about them. Knows ir only.
#include "ir/recipes/guard.hpp"

#include <utility>

#include "ir/recipes/loss_scale.hpp"

namespace stepfuse::recipes {

void decide(Context& c, const Verdict& v) {
  Value bad;
  auto add = [&](bool asked, Value reason) {
    if (asked && reason) bad = bad ? (bad | reason).named("bad") : reason;
  };
  add(c.settings.skip_nonfinite, v.found_inf);
  add(c.settings.skip_overflow, v.norm_overflow);
  add(true, v.over_threshold);
  if (bad) c.good = (!bad).named("good");
  c.applied = c.good;
  if (!c.settings.options.tensor_flags) return;
  Value updated = read_flag(c, "updated");
  c.applied = c.good ? (c.good & updated).named("applied") : updated;
}

void keep_averages(Context& c, const Verdict& v) {
  for (const auto& [state, value] : v.averages) {
    c.b.write(state, value, value.type().at == per::tensor ? c.applied : c.good);
  }
}

Value read_flag(Context& c, std::string_view name) {
  StateRef s = c.b.state(std::string(name), {DType::boolean, per::tensor}, false, 1);
  return c.b.read(s).named(std::string("is_") + std::string(name));
}

namespace {

// Counts skipped steps in all and in a row, and sets a flag for good once a row was max_streak long.
template <class Write>
void count_skips(Context& c, Write&& write) {
  auto counter = [&](std::string_view name, DType dtype) {
    StateRef s = c.b.state(std::string(name), {dtype, per::step});
    return std::pair(s, c.b.read(s).named(std::string(name) + "_in"));
  };
  auto [skips_state, skips_in] = counter("skip_count", DType::i64);
  auto [streak_state, streak_in] = counter("skip_streak", DType::i32);
  auto [stuck_state, stuck_in] = counter("was_stuck", DType::boolean);
  Value skips = c.b.select(c.good, skips_in, (skips_in + c.i64(1)).named("skips_more"));
  Value more = (streak_in + c.i32(1)).named("streak_more");
  Value streak = c.b.select(c.good, c.i32(0), more);
  Value is_long = (c.arg("max_streak") <= streak.named("streak")).named("streak_long");
  Value stuck = (stuck_in | is_long).named("stuck");
  c.b.write(skips_state, skips.named("skips"));
  c.b.write(streak_state, streak);
  c.b.write(stuck_state, stuck);
  write("skipped_steps", skips);
  write("skipped_in_a_row", streak);
  write("stuck", stuck);
}

}  // namespace

void report(Context& c, const Verdict& v) {
  auto write = [&](std::string_view name, Value value) {
    if (value) c.b.write(c.b.report(std::string(name), value.type()), value);
  };
  write("found_inf", v.found_inf);
  write("grad_norm", v.norm);
  // Report 0 for a skipped step, which used nothing of the gradient.
  bool zero = v.clip_coef && c.good;
  write("clip_coef",
        zero ? c.b.select(c.good, v.clip_coef, c.f32(0)).named("coef_used") : v.clip_coef);
  write("norm_overflow", v.norm_overflow);
  write("over_threshold", v.over_threshold);
  if (c.good) write("skipped", (!c.good).named("skipped"));
  if (c.settings.scaled()) write("loss_scale", read_scale(c));
  write("next_loss_scale", c.next_scale);
  if (v.first_bad) {
    Value first = c.b.select(v.found_inf, v.first_bad, c.i32(-1)).named("first_nonfinite");
    write("first_nonfinite", first);
  }
  if (c.settings.options.monitor && c.good) count_skips(c, write);
}

}  // namespace stepfuse::recipes
