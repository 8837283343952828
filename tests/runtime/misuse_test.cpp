// Misuse that a step refuses before it does harm: unbound runs, impossible argument values, halves
// of a window on two scalers, moved-from objects, numbers out of range.
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

using namespace stepfuse;
using doctest::Contains;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Layout two_tensors() {
  Layout layout;
  layout.add({.name = "a", .elements = 1}).add({.name = "b", .elements = 1});
  return layout;
}

// Adam over tensors of one element, with garbage in the moments.
struct Adam {
  std::vector<float> weight = std::vector<float>(3, 1), m = std::vector<float>(3, 1e30F), v = m;
  std::vector<float> grad = std::vector<float>(3, 1);
  Step step{make_recipe("adamw"), two_tensors(), Device::interpreter()};

  Adam() { start(2); }
  void start(size_t tensors) {
    step.prepare();
    step.bind_raw("weight", pointers(weight, tensors));
    step.bind_raw("exp_avg", pointers(m, tensors));
    step.bind_raw("exp_avg_sq", pointers(v, tensors));
  }
  static std::vector<void*> pointers(std::vector<float>& values, size_t tensors) {
    std::vector<void*> out;
    for (size_t i = 0; i < tensors; ++i) out.push_back(&values[i]);
    return out;
  }
  void run(size_t tensors) { step.run(pointers(grad, tensors), step.make_args()); }
};

}  // namespace

TEST_CASE("a step whose buffers begin somehow does not run before they did") {
  Adam a;
  CHECK_THROWS_WITH_AS(a.run(2), Contains("call init_state()"), Error);
  CHECK(a.weight == std::vector<float>(3, 1));
  a.step.init_state();
  a.run(2);
  a.step.append({.name = "c", .elements = 1});
  a.start(3);
  CHECK_THROWS_WITH_AS(a.run(3), Contains("tensor 2 is not initialised"), Error);
  CHECK_THROWS_WITH_AS(a.step.init_tensors(Tensor{3}), Contains("init_tensors(3)"), Error);
  a.step.init_tensors(Tensor{2});
  a.run(3);
  CHECK(a.weight[2] == doctest::Approx(1 - 1e-3 - 1e-5));

  Adam own;
  own.m.assign(3, 0);
  own.v.assign(3, 0);
  own.step.adopt_state();
  own.run(2);
  CHECK(own.weight[0] == a.weight[2]);
}

TEST_CASE("arguments of recipes have bounds; those of one's own text, and unchecked ones, do not") {
  Step step(make_recipe("adamw", {.clip = Clip::l2, .accumulated = true}), two_tensors(),
            Device::interpreter());
  Args args = step.make_args();
  for (const char* name : {"lr", "beta1", "beta2", "eps", "weight_decay", "max_norm"}) {
    for (double bad : {kNan, -1.0, -kInf, -1e-300}) {
      CHECK_THROWS_WITH_AS(args.set(name, bad), Contains("cannot be"), Error);
      CHECK_THROWS_AS(args.set(step.arg(name), bad), Error);
    }
    CHECK_NOTHROW(args.set(name, 0.0));
  }
  CHECK_THROWS_WITH_AS(args.set("accumulation", 0), Contains("it must be above 0"), Error);
  CHECK_THROWS_WITH_AS(
      args.set("beta2", 1),
      "argument 'beta2' of step @adamw cannot be 1: it must be at least 0 and below 1", Error);
  CHECK_NOTHROW(args.set("max_norm", kInf));
  CHECK_THROWS_AS(args.set("lr", Group{0}, kNan), Error);
  CHECK(args.get(step.arg("lr")) == 0);  // an error changes nothing

  Step any(make_recipe("adamw"), two_tensors(), Device::interpreter(), {.check_args = false});
  Args unchecked = any.make_args();
  unchecked.set("lr", -1);
  CHECK(unchecked.get(any.arg("lr")) == -1);

  Step own(parse("step @own { buffer @grad : f32 inout\n arg %lr : f32\n %g = load @grad : [f32]\n"
                 " %x = mul %g, %lr : [f32]\n store @grad, %x }"),
           two_tensors(), Device::interpreter());
  Args free = own.make_args();
  free.set("lr", -1);
  CHECK(free.get(own.arg("lr")) == -1);
}

TEST_CASE("loss scales are positive and finite, and options are doubles") {
  for (double bad : {kNan, 0.0, -1.0, kInf, -kInf, 1e39, 1e-50}) {
    LossScaler scaler;
    CHECK_THROWS_WITH_AS(scaler.write("scale", bad), Contains("positive and finite"), Error);
    CHECK_THROWS_AS(scaler.update(bad), Error);
    CHECK_THROWS_AS(LossScaler({.init_scale = bad}), Error);
    CHECK(scaler.read() == 65536);
  }
  CHECK_THROWS_AS(LossScaler({.growth_factor = kInf}), Error);
  CHECK_THROWS_AS(LossScaler({.growth_factor = kNan}), Error);
  CHECK_THROWS_AS(LossScaler({.backoff_factor = kNan}), Error);
  for (double bad : {1.0, 1.5, 0.0, -0.5})
    CHECK_THROWS_AS(LossScaler({.backoff_factor = bad}), Error);
  CHECK_NOTHROW(LossScaler({.backoff_factor = 0.999}));
  for (double bad : {1.0, 0.5}) CHECK_THROWS_AS(LossScaler({.growth_factor = bad}), Error);
  for (int bad : {0, -1}) CHECK_THROWS_AS(LossScaler({.growth_interval = bad}), Error);
  CHECK_NOTHROW(LossScaler({.growth_interval = 1}));
  LossScaler scaler({.growth_factor = 1.1});
  Step step(make_recipe("sgd", {.loss_scale = LossScale::dynamic}), two_tensors(),
            Device::interpreter(), {.scaler = &scaler});
  CHECK(step.make_args().get(step.arg("growth_factor")) == 1.1);
}

TEST_CASE("a scaler has room for 32 states") {
  auto step_with = [](int states, LossScaler& scaler) {
    std::string text = "step @many {\n  buffer @grad : f32 in\n";
    for (int i = 0; i < states; ++i) {
      text +=
          "  state @s" + std::to_string(i) + " : i64 shared = " + std::to_string(100 + i) + "\n";
    }
    text +=
        "  %g = load @grad : [f32]\n  %sum = reduce_add %g : f32\n  report @sum : f32\n"
        "  write @sum, %sum\n}\n";
    Step step(parse(text), two_tensors(), Device::interpreter(), {.scaler = &scaler});
  };
  LossScaler scaler;
  step_with(32, scaler);
  for (int i = 0; i < 32; ++i) CHECK(scaler.read("s" + std::to_string(i)) == 100 + i);
  CHECK_THROWS_WITH_AS(step_with(33, scaler), "a LossScaler holds at most 32 shared states", Error);
  step_with(32, scaler);
  CHECK(scaler.read("s31") == 131);
}

TEST_CASE("numbers and enumerators out of range, and objects moved from") {
  Layout layout = two_tensors();
  auto make = [&](const StepOptions& options) {
    Step(make_recipe("adamw"), layout, Device::interpreter(), options);
  };
  CHECK_THROWS_WITH_AS(make({.stats_ring = std::numeric_limits<int>::max()}),
                       Contains("stats_ring"), Error);
  CHECK_THROWS_WITH_AS(make({.stats_ring = 0}), Contains("stats_ring"), Error);
  CHECK_THROWS_WITH_AS(make({.form = static_cast<Form>(9)}), Contains("form"), Error);
  CHECK_THROWS_WITH_AS(make_recipe("adamw", {.loss_scale = static_cast<LossScale>(9)}),
                       Contains(".loss_scale: the value is not one of none, fixed"), Error);
  CHECK_THROWS_AS(make_recipe("adamw", {.clip = static_cast<Clip>(77)}), Error);
  CHECK_THROWS_AS(make_recipe("adamw", {.on_nonfinite = static_cast<OnNonfinite>(77)}), Error);
  CHECK_THROWS_AS(make_recipe("loss_scale_update", {.loss_scale = static_cast<LossScale>(9)}),
                  Error);
  Layout odd;
  odd.add({.elements = 1, .dtypes = {{"weight", static_cast<DType>(99)}}});
  CHECK_THROWS_WITH_AS(Step(make_recipe("adamw"), odd, Device::interpreter()),
                       Contains("cannot be stored as an unknown type"), Error);

  Step step(make_recipe("adamw"), layout, Device::interpreter());
  Args args = step.make_args();
  Args kept = std::move(args);
  CHECK_THROWS_WITH_AS(args.set("lr", 1), Contains("moved from"), Error);  // NOLINT
  CHECK_THROWS_AS(args.get({0}), Error);                                   // NOLINT
  Step there = std::move(step);
  CHECK_THROWS_WITH_AS(step.prepare(), Contains("moved from"), Error);  // NOLINT
  CHECK_THROWS_AS(step.latest(), Error);                                // NOLINT
  CHECK_THROWS_AS(step.layout(), Error);                                // NOLINT
  CHECK(there.layout().size() == 2);
}

TEST_CASE("an allocator whose release throws ends no process") {
  std::vector<char> memory(1 << 20);
  char* aligned = memory.data() + (256 - reinterpret_cast<uintptr_t>(memory.data()) % 256) % 256;
  bool released = false;
  {
    Allocator allocator{[&](size_t, Stream) -> void* { return aligned; },
                        [&](void*, size_t, Stream) {
                          released = true;
                          throw std::runtime_error("no");
                        }};
    Step step(make_recipe("sgd"), two_tensors(), Device::interpreter(), {.allocator = allocator});
  }
  CHECK(released);
}

TEST_CASE("a window is opened and closed on one scaler") {
  LossScaler first({.init_scale = 1}), second({.init_scale = 1});
  RecipeOptions options{.loss_scale = LossScale::dynamic, .window = true};
  Step accumulate(make_recipe("accumulate"), two_tensors(), Device::interpreter(),
                  {.scaler = &first});
  Step step(make_recipe("sgd", options), two_tensors(), Device::interpreter(), {.scaler = &second});
  std::vector<float> w = {1, 1}, g = {1, 1};
  step.bind_raw("weight", {{&w[0], &w[1]}});
  step.prepare();
  CHECK_THROWS_WITH_AS(step.run({{&g[0], &g[1]}}, step.make_args()),
                       Contains("the same StepOptions::scaler"), Error);
  CHECK(w[0] == 1);
  second.write("micro_batches", 1);  // a trainer that counts by itself has to say so
  step.run({{&g[0], &g[1]}}, step.make_args());
  CHECK(w[0] < 1);
}

TEST_CASE("messages name options as the caller writes them") {
  RecipeOptions options{.clip_per_group = true};
  CHECK_THROWS_WITH_AS(make_recipe("adamw", options), ".clip_per_group needs .clip = l2, l1 or inf",
                       Error);
  CHECK_THROWS_WITH_AS(make_recipe("adamw", options, OptionNames::flags),
                       "--clip-per-group needs --clip=l2, l1 or inf", Error);
  CHECK_THROWS_WITH_AS(
      Step(make_recipe("sgd", {.loss_scale = LossScale::dynamic}), two_tensors(), Device::cpu()),
      Contains("StepOptions::scaler"), Error);
}

TEST_CASE("a caller's memory that fails leaves the step as it was") {
  alignas(256) static char memory[2][1 << 16];
  int given = 0;
  Allocator allocator{[&](size_t bytes, Stream) -> void* {
                        REQUIRE(bytes <= sizeof memory[0]);
                        if (given == 1) throw std::runtime_error("none left");
                        return memory[given++];
                      },
                      [](void*, size_t, Stream) {}};
  std::vector<float> weight(2, 1), m(2, 1e30F), v = m, grad(2, 1);
  Step step(make_recipe("adamw"), two_tensors(), Device::interpreter(), {.allocator = allocator});
  step.prepare();
  step.bind_raw("weight", Adam::pointers(weight, 2));
  step.bind_raw("exp_avg", Adam::pointers(m, 2));
  step.bind_raw("exp_avg_sq", Adam::pointers(v, 2));
  auto run = [&] { step.run(Adam::pointers(grad, 2), step.make_args()); };
  CHECK_THROWS_AS(step.init_state(), std::runtime_error);  // its own step needs memory, too
  CHECK_THROWS_WITH_AS(run(), Contains("call init_state()"), Error);
  m.assign(2, 0);
  v.assign(2, 0);
  step.adopt_state();
  run();
  step.append({.name = "c", .elements = 1});
  CHECK_THROWS_AS(step.prepare(), std::runtime_error);
  CHECK(step.layout().size() == 2);
  run();
  CHECK(step.read_state("step").size() == 2);
  CHECK(weight[0] < 1);
}

TEST_CASE(
    "an allocator whose release throws ends no process, not even one without standard error") {
  int kept = ::dup(2);
  REQUIRE(kept >= 0);
  ::close(2);
  std::setvbuf(stderr, nullptr, _IONBF, 0);
  alignas(256) static char memory[1 << 16];
  Allocator allocator{[&](size_t, Stream) -> void* { return memory; },
                      [](void*, size_t, Stream) { throw std::runtime_error("no"); }};
  {
    Step step(make_recipe("sgd"), two_tensors(), Device::interpreter(), {.allocator = allocator});
  }
  ::dup2(kept, 2);
  ::close(kept);
}

TEST_CASE("steps that close windows count nothing for one another, nor does one that is gone") {
  LossScaler scaler({.init_scale = 1});
  RecipeOptions options{.loss_scale = LossScale::dynamic, .window = true};
  auto make = [&](const char* recipe, const RecipeOptions& o) {
    return std::make_unique<Step>(make_recipe(recipe, o), two_tensors(), Device::interpreter(),
                                  StepOptions{.scaler = &scaler});
  };
  auto opener = make("accumulate", {});
  auto step = make("sgd", options), other = make("sgd", options);
  std::vector<float> w = {1, 1}, g = {1, 1};
  step->bind_raw("weight", {{&w[0], &w[1]}});
  step->prepare();
  auto run = [&] { step->run({{&g[0], &g[1]}}, step->make_args()); };
  opener.reset();
  CHECK_THROWS_WITH_AS(run(), Contains("the same StepOptions::scaler"), Error);
  opener = make("accumulate", {});
  CHECK_NOTHROW(run());
}
