// The caller's floating-point mode does not affect texts, recipes, arguments and steps, which stay
// bit-identical. The mode is restored afterwards. Knows the public API.
#include <cfenv>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/ir.hpp>
#include <stepfuse/stepfuse.hpp>

#include "runtime/cpu/llvm_compiler.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr size_t kSize = 50;

RecipeOptions random_options(Rng& rng) {
  RecipeOptions o;
  o.clip = rng.pick({Clip::none, Clip::l2, Clip::inf});
  if (rng.chance(50)) o.loss_scale = LossScale::dynamic;
  o.check = rng.chance(50);
  return o;
}

struct Results {
  std::string texts;
  double argument = 0;
  std::vector<std::vector<float>> arrays;
  std::string reports;
};

struct Case {
  std::string recipe;
  RecipeOptions options;
  double lr;
  std::string constant;  // the text of a step
  Device device;
  std::vector<float> gradient;
};

// Runs only our code under `mode`, not the test's arithmetic.
Results run(const Case& c, int mode) {
  Results r;
  std::fesetround(mode);
  Program p = make_recipe(c.recipe, c.options);
  r.texts = print(p) + print(parse(c.constant));
  Layout layout;
  layout.add({.elements = kSize});
  LossScaler scaler({.init_scale = 3});
  Step step(parse(print(p)), layout, c.device, {.scaler = &scaler});
  step.prepare();
  Args args = step.make_args();
  args.set("lr", c.lr);
  r.argument = args.get(step.arg("lr"));
  std::vector<float> gradient = c.gradient;
  r.arrays.assign(p.buffers.size(), c.gradient);
  for (size_t b = 0; b < p.buffers.size(); ++b) {
    if (p.buffers[b].name != "grad") step.bind_raw(p.buffers[b].name, {r.arrays[b].data()});
  }
  step.init_state();
  for (int i = 0; i < 2; ++i) step.run({gradient.data()}, args);
  if (auto stats = step.stats()) {
    for (const auto& [name, value] : stats->values)
      r.reports += fmt::format("{}={:a} ", name, value);
  }
  CHECK(std::fegetround() == mode);
  std::fesetround(FE_TONEAREST);
  return r;
}

}  // namespace

TEST_CASE("fuzz: the caller's rounding mode") {
  fuzz(40, [&](Rng& rng) {
    Case c{.recipe = rng.pick({"adamw", "sgd", "lion", "rmsprop"}),
           .options = random_options(rng),
           .lr = 1e-3 * rng.unit(),
           .constant = {},
           .device =
               llvm_status().available && rng.chance(50) ? Device::cpu(1) : Device::interpreter(),
           .gradient = {}};
    c.constant = fmt::format(
        "step @s {{\n  report @r : f32\n  %c = const {} : f32\n  write @r, %c\n}}\n", rng.unit());
    for (size_t i = 0; i < kSize; ++i) c.gradient.push_back(static_cast<float>(rng.unit()));
    const Results expected = run(c, FE_TONEAREST);
    const Results actual = run(c, rng.pick({FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}));
    CHECK(actual.texts == expected.texts);
    CHECK(actual.argument == expected.argument);
    CHECK(actual.arrays == expected.arrays);
    CHECK(actual.reports == expected.reports);
  });
}
