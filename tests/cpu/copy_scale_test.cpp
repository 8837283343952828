// Scales of 8-bit weight copies beside an independent model of TransformerEngine's delayed scaling.
#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>
#include <stepfuse/stepfuse.hpp>

#include "ir/narrow.hpp"

using namespace stepfuse;

namespace {

const size_t kSizes[] = {20'000, 33, 7};

struct Run {
  std::vector<std::vector<uint8_t>> weight;
  std::vector<std::vector<float>> master, grad;
  Step step;

  Run(const RecipeOptions& options, const Device& device, Form form)
      : step(make_recipe("sgd", options), layout(), device, {.form = form}) {
    std::vector<void*> weights, masters;
    for (size_t n : kSizes) {
      weight.emplace_back(n, 0);
      master.emplace_back(n, 0.0F);
      grad.emplace_back(n, 0.0F);
    }
    for (size_t t = 0; t < 3; ++t) {
      weights.push_back(weight[t].data());
      masters.push_back(master[t].data());
    }
    step.bind("weight", weights);
    step.bind("master", masters);
    step.prepare();
    step.init_state();
  }
  static Layout layout() {
    Layout layout;
    for (size_t n : kSizes) layout.add({.size = n});
    return layout;
  }
  std::vector<float> state(const std::string& name) const {
    std::vector<float> values;
    for (Bits b : step.read_state(name)) {
      values.push_back(std::bit_cast<float>(static_cast<uint32_t>(b.raw)));
    }
    return values;
  }
};

// One tensor's, as published: a history of amaxes, the newest included, of which the largest counts.
struct Model {
  std::deque<float> history = std::deque<float>(16, 0.0F);
  float scale = 1;
  float inverse = 1;

  void step(const std::vector<float>& master, float highest) {
    inverse = 1 / scale;
    float amax = 0;
    for (float w : master) {
      amax = std::isnan(w) || std::isnan(amax) ? std::numeric_limits<float>::quiet_NaN()
                                               : std::max(amax, std::fabs(w));
    }
    history.push_front(amax);
    history.pop_back();
    float widest = 0;
    for (float a : history) {
      widest = std::isnan(a) || std::isnan(widest) ? std::numeric_limits<float>::quiet_NaN()
                                                   : std::max(widest, a);
    }
    if (!std::isfinite(widest) || widest <= 0) return;
    scale = std::min(highest / widest, std::numeric_limits<float>::max());
  }
};

// Steps of SGD whose weights grow, shrink, are NaN for a while, or are always 0 (the last tensor).
void compare(DType model, const Device& device, Form form) {
  RecipeOptions options{.master = true,
                        .model = model,
                        .copy_scale = CopyScale::delayed,
                        .check = true,
                        .on_nonfinite = OnNonfinite::propagate};
  Run run(options, device, form);
  std::vector<Model> models(3);
  float highest = model == DType::f8e4m3 ? 448 : 57344;
  bool was_nan = false, clipped = false;
  for (int k = 0; k < 60; ++k) {
    std::vector<void*> grads;
    for (size_t t = 0; t < 3; ++t) {
      for (size_t i = 0; i < kSizes[t]; ++i) {
        float g =
            t == 2 ? 0 : std::sin(static_cast<float>(i)) * std::exp2(static_cast<float>(k % 24));
        // Back towards 0, from which the history remembers.
        run.grad[t][i] = k % 24 == 20 ? run.master[t][i] : g;
      }
      if (t == 1 && k == 30) run.grad[t][5] = std::numeric_limits<float>::quiet_NaN();
      if (t == 1 && k == 32) run.master[t][5] = 1;
      if (t == 1 && k == 40) run.master[t][6] = std::numeric_limits<float>::infinity();
      grads.push_back(run.grad[t].data());
    }
    Args args = run.step.make_args();
    args.set("lr", 1);
    run.step.run(grads, args);
    for (size_t t = 0; t < 3; ++t) {
      float scale = models[t].scale;
      for (size_t i = 0; i < kSizes[t]; ++i) {
        float scaled = run.master[t][i] * scale;
        REQUIRE(run.weight[t][i] == narrow(scaled, model));
        was_nan |= std::isnan(scaled);
        clipped |= std::fabs(scaled) > highest;
      }
      models[t].step(run.master[t], highest);
      REQUIRE(run.state("copy_scale")[t] == models[t].scale);
      REQUIRE(run.state("copy_scale_inv")[t] == models[t].inverse);
    }
  }
  CHECK(was_nan);
  CHECK(clipped);
  CHECK(run.state("copy_scale")[2] == 1);
}

}  // namespace

TEST_CASE("scaled copies: TransformerEngine's delayed scaling on every device and form") {
  for (DType model : {DType::f8e4m3, DType::f8e5m2}) {
    for (const Device& device : {Device::interpreter(), Device::cpu(2)}) {
      for (Form form : {Form::fused, Form::unfused}) compare(model, device, form);
    }
  }
}

TEST_CASE("scaled copies: a step that is skipped leaves copy and scales") {
  RecipeOptions options{
      .master = true, .model = DType::f8e4m3, .copy_scale = CopyScale::delayed, .check = true};
  Run run(options, Device::interpreter(), Form::fused);
  auto go = [&](float g) {
    std::vector<void*> grads;
    for (auto& grad : run.grad) {
      std::fill(grad.begin(), grad.end(), g);
      grads.push_back(grad.data());
    }
    run.step.run(grads, run.step.make_args());
  };
  go(1);
  go(1);
  std::vector<float> scale = run.state("copy_scale"), inverse = run.state("copy_scale_inv");
  CHECK(scale[0] > 1);
  CHECK(inverse[0] < 1);
  auto copies = run.weight;
  go(std::numeric_limits<float>::infinity());
  CHECK(run.state("copy_scale") == scale);
  CHECK(run.state("copy_scale_inv") == inverse);
  CHECK(run.state("amax_3")[0] == 0);
  CHECK(run.weight == copies);
}

TEST_CASE("scaled copies are of 8 bits, beside f32 masters") {
  for (RecipeOptions o : {RecipeOptions{}, RecipeOptions{.master = true},
                          RecipeOptions{.master = true, .model = DType::f16}}) {
    o.copy_scale = CopyScale::delayed;
    CHECK_THROWS_WITH_AS(make_recipe("adamw", o), doctest::Contains(".model = f8e4m3"), Error);
  }
}
