// Which steps are good, and what is reported about them. Knows ir only.
#include "ir/recipes/guard.hpp"

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
}

void report(Context& c, const Verdict& v) {
  auto write = [&](std::string_view name, Value value) {
    if (value) c.b.write(c.b.report(std::string(name), value.type()), value);
  };
  write("found_inf", v.found_inf);
  write("grad_norm", v.norm);
  // 0 for a step that was not taken: nothing of the gradient was used.
  bool zero = v.clip_coef && c.good;
  write("clip_coef",
        zero ? c.b.select(c.good, v.clip_coef, c.f32(0)).named("coef_used") : v.clip_coef);
  write("norm_overflow", v.norm_overflow);
  write("over_threshold", v.over_threshold);
  if (c.good) write("skipped", (!c.good).named("skipped"));
  if (c.settings.scaled()) write("loss_scale", read_scale(c));
}

}  // namespace stepfuse::recipes
