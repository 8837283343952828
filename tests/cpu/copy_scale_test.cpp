// Scales of 8-bit weight copies compared with independent models of TransformerEngine's delayed and
// current scaling, and of MXFP8's two roundings.
#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/format.hpp>
#include <stepfuse/recipes.hpp>
#include <stepfuse/stepfuse.hpp>

#include "ir/semantics/narrow.hpp"
#include "tests/cpu/copy_options.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

const size_t kSizes[] = {20'000, 33, 7};

struct Run {
  std::vector<std::vector<uint8_t>> weight, weight_scale;
  std::vector<std::vector<float>> master, grad;
  Step step;

  Run(const RecipeOptions& options, const Device& device, Form form)
      : step(make_recipe("sgd", options), layout(), device, {.form = form}) {
    std::vector<void*> weights, masters;
    std::vector<void*> scales;
    for (size_t n : kSizes) {
      weight.emplace_back(n, 0);
      weight_scale.emplace_back((n + 31) / 32, 0);
      master.emplace_back(n, 0.0F);
      grad.emplace_back(n, 0.0F);
    }
    for (size_t t = 0; t < 3; ++t) {
      weights.push_back(weight[t].data());
      masters.push_back(master[t].data());
      scales.push_back(weight_scale[t].data());
    }
    step.bind_raw("weight", weights);
    if (options.copy_scale == CopyScale::mx || options.copy_scale == CopyScale::mx_rceil)
      step.bind_raw("weight_scale", scales);
    step.bind_raw("master", masters);
    step.prepare();
    step.init_state();
  }
  static Layout layout() {
    Layout layout;
    for (size_t n : kSizes) layout.add({.elements = n});
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

// The published rule for one tensor: the scale follows the largest amax of a history that includes
// the newest.
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

// The rule with only this step's weights.
struct CurrentModel {
  float inverse = 1;
  float step(const std::vector<float>& master, float highest) {
    Model fresh;
    fresh.step(master, highest);
    inverse = 1 / fresh.scale;
    return fresh.scale;
  }
};

// Gradients that make weights grow, shrink, be NaN for a while, or stay 0 (the last tensor).
std::vector<void*> gradients(Run& run, int k) {
  std::vector<void*> grads;
  for (size_t t = 0; t < 3; ++t) {
    for (size_t i = 0; i < kSizes[t]; ++i) {
      float g =
          t == 2 ? 0 : std::sin(static_cast<float>(i)) * std::exp2(static_cast<float>(k % 24));
      // Decreases the weight, so that only the history has the larger amax.
      run.grad[t][i] = k % 24 == 20 ? run.master[t][i] : g;
    }
    if (t == 1 && k == 30) run.grad[t][5] = std::numeric_limits<float>::quiet_NaN();
    if (t == 1 && k == 32) run.master[t][5] = 1;
    if (t == 1 && k == 40) run.master[t][6] = std::numeric_limits<float>::infinity();
    grads.push_back(run.grad[t].data());
  }
  return grads;
}

void compare(DType model, const Device& device, Form form) {
  Run run(options_of(model, CopyScale::delayed), device, form);
  std::vector<Model> models(3);
  float highest = model == DType::f8e4m3 ? 448 : 57344;
  bool was_nan = false, clipped = false;
  for (int k = 0; k < 60; ++k) {
    std::vector<void*> grads = gradients(run, k);
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

void compare_current(DType model, const Device& device, Form form) {
  Run run(options_of(model, CopyScale::current), device, form);
  float highest = model == DType::f8e4m3 ? 448 : 57344;
  int unusable = 0;
  for (int k = 0; k < 60; ++k) {
    std::vector<void*> grads = gradients(run, k);
    Args args = run.step.make_args();
    args.set("lr", 1);
    run.step.run(grads, args);
    for (size_t t = 0; t < 3; ++t) {
      CurrentModel expected;
      float scale = expected.step(run.master[t], highest);
      unusable += scale == 1 ? 1 : 0;
      for (size_t i = 0; i < kSizes[t]; ++i) {
        REQUIRE(run.weight[t][i] == narrow(run.master[t][i] * scale, model));
      }
      REQUIRE(run.state("copy_scale_inv")[t] == expected.inverse);
    }
  }
  CHECK(unusable > 60);  // zeros, NaN and infinities
}

struct Block {
  int scale;
  float divisor;
};

// Power-of-two scales of a block of 32 by OCP's rule.
Block by_floor(float amax, DType model) {
  if (std::isnan(amax)) return {255, std::numeric_limits<float>::infinity()};
  int last_binade = model == DType::f8e4m3 ? 8 : 15;
  int power = std::isinf(amax) ? 128 : amax > 0 ? std::ilogb(amax) : -127;
  int exponent = std::max(power - last_binade, -127);
  return {exponent + 127, std::ldexp(1.0F, std::max(exponent, -126))};
}

// TransformerEngine's float_to_e8m0 of amax / type_max, and its exp2f_rcp.
Block by_rceil(float amax, float highest) {
  float wanted = amax / highest;
  if (std::isnan(wanted)) return {255, wanted};
  if (std::isinf(wanted)) return {254, 0x1p127F};
  int exponent = -127;
  while (exponent < 127 && std::ldexp(1.0F, exponent) < wanted) ++exponent;
  return {exponent + 127, exponent == -127 ? 1 : std::ldexp(1.0F, exponent)};
}

void check_block(const float* x, size_t n, const uint8_t* codes, uint8_t scale, DType model,
                 CopyScale how) {
  float amax = 0;
  for (size_t i = 0; i < n; ++i) {
    amax = std::isnan(x[i]) || std::isnan(amax) ? std::numeric_limits<float>::quiet_NaN()
                                                : std::max(amax, std::fabs(x[i]));
  }
  float highest = model == DType::f8e4m3 ? 448 : 57344;
  Block expected = how == CopyScale::mx ? by_floor(amax, model) : by_rceil(amax, highest);
  REQUIRE(scale == expected.scale);
  for (size_t i = 0; i < n; ++i) {
    float part = x[i] / expected.divisor;
    REQUIRE((how == CopyScale::mx || std::isinf(x[i]) || !(std::fabs(part) > highest)));
    if (!std::isnan(part)) part = std::min(std::max(part, -highest), highest);
    REQUIRE(codes[i] == narrow(part, model));
  }
}

// Zeros, numbers for which one more fraction bit changes the power, and others, of all magnitudes
// down to subnormal.
float first_weight(size_t block, float highest) {
  int exponent = static_cast<int>(block % 277) - 149;
  float edge = std::ldexp(highest, exponent);
  switch (block % 5) {
    case 0:
      return 0;
    case 1:
      return edge;
    case 2:
      return std::nextafter(edge, std::numeric_limits<float>::infinity());
    default:
      return std::ldexp(1.0F, exponent);
  }
}

void compare_mx(DType model, CopyScale how, const Device& device, Form form) {
  Run run(options_of(model, how), device, form);
  for (size_t i = 0; i < kSizes[0]; ++i)
    run.master[0][i] = first_weight(i / 32, model == DType::f8e4m3 ? 448 : 57344);
  for (int k = 0; k < 42; ++k) {
    std::vector<void*> grads = gradients(run, k);
    if (k == 0) std::fill(run.grad[0].begin(), run.grad[0].end(), 0.0F);
    Args args = run.step.make_args();
    args.set("lr", 1);
    run.step.run(grads, args);
    for (size_t t = 0; t < 3; ++t) {
      for (size_t b = 0; b < run.weight_scale[t].size(); ++b) {
        check_block(&run.master[t][32 * b], std::min<size_t>(32, kSizes[t] - 32 * b),
                    &run.weight[t][32 * b], run.weight_scale[t][b], model, how);
      }
    }
  }
}

}  // namespace

TEST_CASE("scaled copies: TransformerEngine's current scaling on every device and form") {
  for (DType model : {DType::f8e4m3, DType::f8e5m2}) {
    for (const Device& device : {Device::interpreter(), Device::cpu(2)}) {
      for (Form form : {Form::fused, Form::split, Form::unfused})
        compare_current(model, device, form);
    }
  }
}

TEST_CASE("scaled copies: MXFP8 by either rounding on every device and form") {
  for (CopyScale how : {CopyScale::mx, CopyScale::mx_rceil}) {
    for (DType model : {DType::f8e4m3, DType::f8e5m2}) {
      for (const Device& device : {Device::interpreter(), Device::cpu(2)}) {
        for (Form form : {Form::fused, Form::split, Form::unfused})
          compare_mx(model, how, device, form);
      }
    }
  }
}

TEST_CASE(
    "scaled copies: a conversion makes f32 masters of MXFP8, and leaves them and their scales "
    "alone else") {
  // Codes 1 and 448, in blocks whose scales are the smallest, 1, the largest, and NaN.
  std::vector<uint8_t> codes(128), scales = {0, 127, 254, 255};
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = i % 2 == 0 ? 0x38 : 0x7e;
  for (std::string format : {"mxe4m3", "mxe4m3_rceil"}) {
    std::vector<float> values(128, -1);
    Step step(conversion(format, "f32"), Layout().add({.elements = 128}), Device::cpu(2));
    step.bind_raw("from." + format + ".weight", {codes.data()});
    step.bind_raw("from." + format + ".weight_scale", {scales.data()});
    step.bind_raw("to", {values.data()});
    step.prepare();
    step.run({}, step.make_args());
    CHECK(values[0] == std::ldexp(1.0F, -127));
    CHECK(values[1] == std::ldexp(448.0F, -127));
    CHECK(values[33] == 448);
    CHECK(values[64] == std::ldexp(1.0F, 127));
    CHECK(values[65] == std::numeric_limits<float>::infinity());
    CHECK(std::isnan(values[96]));
  }

  Run run(options_of(DType::f8e4m3, CopyScale::mx), Device::cpu(1), Form::fused);
  run.weight_scale[0][3] = 7;
  run.master[0][5] = 3;
  run.step.init_state();
  CHECK(run.weight_scale[0][3] == 7);
  CHECK(run.master[0][5] == 3);
}

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

TEST_CASE("scaled copies have 8 bits and need f32 masters") {
  for (RecipeOptions o : {RecipeOptions{}, RecipeOptions{.master = true},
                          RecipeOptions{.master = true, .model = DType::f16}}) {
    o.copy_scale = CopyScale::delayed;
    CHECK_THROWS_WITH_AS(make_recipe("adamw", o), doctest::Contains(".model = f8e4m3"), Error);
  }
}
