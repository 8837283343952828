// Rules over statistics: streaks, handlers, steps that left the ring.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/monitor.hpp>

using namespace stepfuse;

namespace {
StepStats stats(uint64_t index, std::vector<std::pair<std::string, double>> values) {
  return {index, std::move(values)};
}
}  // namespace

TEST_CASE("a handler is called once per streak") {
  Monitor monitor;
  std::vector<std::string> told;
  monitor.add(norm_near(1.0, 0.9, 3), [&](const Finding& f) { told.push_back(f.message); });
  double norms[] = {0.95, 0.95, 0.5, 0.95, 0.95, 0.95, 0.95, 0.1, 2, 2, 2};
  for (uint64_t i = 0; i < std::size(norms); ++i) monitor.feed(stats(i, {{"grad_norm", norms[i]}}));
  CHECK(told == std::vector<std::string>{"norm_above_0.9_of_1: step 5, 3 in a row",
                                         "norm_above_0.9_of_1: step 10, 3 in a row"});
}

TEST_CASE("the built-in rules, and steps that do not report") {
  Monitor monitor;
  std::string told;
  auto note = [&](const Finding& f) { told += f.rule.name + " "; };
  monitor.add(scale_below(1024), note);
  monitor.add(never_clipped(2), note);
  monitor.add(skipped_in_a_row(2), note);
  monitor.feed(stats(0, {{"loss_scale", 2048}, {"clip_coef", 1}, {"skipped", 1}}));
  monitor.feed(stats(1, {}));
  CHECK(told.empty());
  monitor.feed(stats(2, {{"loss_scale", 512}, {"clip_coef", 1}, {"skipped", 1}}));
  CHECK(told == "scale_below_1024 never_clipped skipped_2_in_a_row ");
}

TEST_CASE("what stands on a rule's limit") {
  struct Case {
    Rule rule;
    const char* report;
    double not_yet, just;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Case cases[] = {
      {scale_below(1024), "loss_scale", 1024, 1023},
      {norm_near(2, 0.5, 1), "grad_norm", 1, 1.0001},
      {norm_near(2, 0.5, 1), "grad_norm", nan, std::numeric_limits<double>::infinity()},
      {never_clipped(1), "clip_coef", 0.9999, 1},
      {never_clipped(1), "clip_coef", nan, 2},
      {skipped_in_a_row(1), "skipped", 0, 1},
  };
  for (const Case& c : cases) {
    CAPTURE(c.rule.name);
    Monitor monitor;
    int told = 0;
    monitor.add(c.rule, [&](const Finding&) { ++told; });
    monitor.feed(stats(0, {{c.report, c.not_yet}}));
    CHECK(told == 0);
    monitor.feed(stats(1, {{c.report, c.just}}));
    monitor.feed(stats(2, {{c.report, c.just}}));
    CHECK(told == 1);
    monitor.feed(stats(3, {{c.report, c.not_yet}}));
    monitor.feed(stats(4, {{c.report, c.just}}));
    CHECK(told == 2);
  }
  Monitor monitor;
  auto nothing = [](const Finding&) {};
  CHECK_NOTHROW(monitor.add(skipped_in_a_row(1), nothing));
  CHECK_THROWS_WITH_AS(monitor.add(skipped_in_a_row(0), nothing),
                       "a rule holds for at least 1 step", Error);
}

TEST_CASE("a step feeds what its ring still has") {
  Program p = parse(R"(step @s {
    buffer @grad : f32 in
    report @loss_scale : f32
    arg %x : f32 = 4
    write @loss_scale, %x
  })");
  Layout layout;
  layout.add({.elements = 1});
  Step step(p, layout, Device::interpreter(), {.stats_ring = 4});
  step.prepare();
  Args args = step.make_args();
  float g = 0;
  void* grads[] = {&g};
  Monitor monitor;
  int calls = 0;
  monitor.add({"any", [](const StepStats&) { return true; }, 1}, [&](const Finding&) { ++calls; });
  for (int i = 0; i < 10; ++i) step.run(grads, args);
  monitor.feed(step);
  CHECK(calls == 1);
  CHECK(monitor.lost() == 6);
  CHECK(step.latest()->index == 9);
  CHECK(to_json_line(*step.latest()) == R"({"step":9,"loss_scale":4})");
  CHECK(to_json_line(stats(1, {{"n", std::numeric_limits<double>::infinity()}})) ==
        R"({"step":1,"n":"inf"})");
  double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(to_json_line(stats(1, {{"n", std::copysign(nan, -1)}, {"m", nan}})) ==
        R"({"step":1,"n":"nan","m":"nan"})");
}

TEST_CASE("a handler may add rules; neither it nor the condition may be null") {
  Monitor monitor;
  int told = 0;
  Rule any{"any", [](const StepStats&) { return true; }, 1};
  monitor.add(any, [&](const Finding& f) {
    for (int i = 0; i < 100; ++i) monitor.add(any, [&](const Finding&) { ++told; });
    CHECK(f.rule.name == "any");  // still there
  });
  monitor.feed(stats(0, {}));
  CHECK(told == 0);
  monitor.feed(stats(1, {}));
  CHECK(told == 100);
  CHECK_THROWS_AS(monitor.add(any, nullptr), Error);
  CHECK_THROWS_AS(monitor.add({"none", nullptr, 1}, [](const Finding&) {}), Error);
}
