// Weight copies with a scale for 32 rows of 32 columns (mxfp8) and for 16 of 16 (nvfp4), compared with independent
// models of OCP's and torchao's rules.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/format.hpp>
#include <stepfuse/recipes.hpp>
#include <stepfuse/stepfuse.hpp>

#include "ir/semantics/narrow.hpp"
#include "tests/cpu/copy_options.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/row_shards.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr CopyScale kMxfp8("mxfp8"), kMxfp8Rceil("mxfp8-rceil");
constexpr CopyScale kNvfp4("nvfp4"), kNvfp4Delayed("nvfp4-delayed");
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Shape {
  size_t rows, columns;
  size_t size() const { return rows * columns; }
};
// The last tensor has no columns: it is one row, whose last block is not full.
constexpr Shape kShapes[] = {{70, 96}, {33, 32}, {1, 64}, {100, 160}, {40, 64}, {32, 64}, {1, 37}};

// Weights whose sizes differ from square to square. The first tensor has squares of zeros, with a NaN, with an infinity
// and with nothing but subnormal numbers. In the fourth one value is huge; the fifth is 0 and the sixth is tiny.
float weight_at(size_t tensor, size_t row, size_t column) {
  const Shape& s = kShapes[tensor];
  size_t square = row / 32 * ((s.columns + 31) / 32) + column / 32;
  float x = std::sin(static_cast<float>(7 * row + column)) *
            std::exp2(static_cast<float>(square * 5 % 23) - 12);
  if (tensor == 3) return row == 50 && column == 70 ? 3e38F : x;
  if (tensor == 4) return 0;
  if (tensor == 5) return x * 0x1p-120F;
  if (tensor != 0) return x;
  if (square == 1) return 0;
  if (square == 3) return row == 40 && column == 20 ? kInf : x;
  if (square == 5) return row == 63 && column == 95 ? kNaN : x;
  if (square == 7) return row == 69 && column == 40 ? 1e-42F : -1e-44F;
  return x;
}

struct Run {
  std::vector<std::vector<int32_t>> fours;   // of nvfp4
  std::vector<std::vector<uint8_t>> weight;  // of mxfp8
  std::vector<std::vector<uint8_t>> weight_scale;
  std::vector<std::vector<float>> master, grad;
  size_t block;  // elements of a row that share a scale
  Step step;

  Run(const RecipeOptions& options, bool is_four, const Device& device, Form form)
      : block(is_four ? 16 : 32),
        step(make_recipe("sgd", options), layout(), device, {.form = form}) {
    std::vector<void*> weights, scales, masters;
    for (size_t t = 0; t < std::size(kShapes); ++t) {
      const Shape& s = kShapes[t];
      weight.emplace_back(s.size(), 0);
      fours.emplace_back((s.size() + 7) / 8, 0);
      weight_scale.emplace_back((s.size() + block - 1) / block, 99);
      grad.emplace_back(s.size(), 0.0F);
      std::vector<float>& own = master.emplace_back();
      for (size_t i = 0; i < s.size(); ++i)
        own.push_back(weight_at(t, i / s.columns, i % s.columns));
    }
    for (size_t t = 0; t < std::size(kShapes); ++t) {
      weights.push_back(is_four ? static_cast<void*>(fours[t].data()) : weight[t].data());
      scales.push_back(weight_scale[t].data());
      masters.push_back(master[t].data());
    }
    step.bind_raw("weight", weights);
    step.bind_raw("weight_scale", scales);
    step.bind_raw("master", masters);
    step.prepare();
    step.init_state();
  }
  static Layout layout() {
    Layout layout;
    for (const Shape& s : kShapes)
      layout.add({.elements = s.size(), .columns = s.rows == 1 ? 0 : s.columns});
    return layout;
  }
  void go(float gradient) {
    std::vector<void*> grads;
    for (auto& g : grad) {
      std::fill(g.begin(), g.end(), gradient);
      grads.push_back(g.data());
    }
    Args args = step.make_args();
    args.set("lr", 1);
    step.run(grads, args);
  }
  float of_tensor(size_t t) const { return step.read_state("copy_scale_inv")[t].f32(); }
  uint32_t code(size_t t, size_t i) const {
    return (static_cast<uint32_t>(fours[t][i / 8]) >> (4 * (i % 8))) & 15;
  }
};

constexpr float kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
float value_of(uint32_t code) {
  return std::copysign(kMagnitudes[code & 7], code > 7 ? -1.0F : 1.0F);
}

// The nearest code, and of two equally near ones the even one. A NaN becomes 0.
uint32_t code_of(float value) {
  if (std::isnan(value)) return 0;
  double size = std::fabs(static_cast<double>(value));
  uint32_t code = 0;
  for (uint32_t i = 1; i < 8; ++i) {
    double middle = (static_cast<double>(kMagnitudes[i - 1]) + kMagnitudes[i]) / 2;
    if (size > middle || (size == middle && i % 2 == 0)) code = i;
  }
  return code | (std::signbit(value) ? 8 : 0);
}

// The largest magnitude, or NaN if there is one.
float largest(const std::vector<float>& values, const std::vector<size_t>& places) {
  float most = 0;
  for (size_t i : places) {
    if (std::isnan(values[i])) return kNaN;
    most = std::max(most, std::fabs(values[i]));
  }
  return most;
}

// Calls f(places) for the elements of each square.
template <class F>
void for_squares(const Shape& s, size_t side, F f) {
  for (size_t row = 0; row < s.rows; row += side) {
    for (size_t column = 0; column < s.columns; column += side) {
      std::vector<size_t> places;
      for (size_t r = row; r < std::min(s.rows, row + side); ++r) {
        for (size_t c = column; c < std::min(s.columns, column + side); ++c)
          places.push_back(r * s.columns + c);
      }
      f(places);
    }
  }
}

// The biased exponent of a square's scale, and the number that its elements are divided by.
std::pair<int, float> power_of(float most, DType model, bool rceil) {
  float highest = model == DType::f8e4m3 ? 448 : 57344;
  if (std::isnan(most)) return {255, rceil ? kNaN : kInf};
  int exponent = 0;
  if (!rceil) {
    int top = std::isinf(most) ? 128 : most < 0x1p-126F ? -127 : std::ilogb(most);
    exponent = std::max(-127, top - std::ilogb(highest));
    return {exponent + 127, std::max(std::ldexp(1.0F, exponent), 0x1p-126F)};
  }
  float wanted = most / highest;
  if (wanted <= 0x1p-127F) return {0, 1};
  exponent = std::isinf(wanted) ? 127 : std::ilogb(wanted);
  if (!std::isinf(wanted) && std::ldexp(1.0F, exponent) < wanted) ++exponent;
  return {exponent + 127, std::ldexp(1.0F, exponent)};
}

void check_mx(const Run& run, DType model, bool rceil) {
  float highest = model == DType::f8e4m3 ? 448 : 57344;
  for (size_t t = 0; t < std::size(kShapes); ++t) {
    CAPTURE(t);
    for_squares(kShapes[t], 32, [&](const std::vector<size_t>& places) {
      auto [biased, divisor] = power_of(largest(run.master[t], places), model, rceil);
      for (size_t i : places) {
        REQUIRE(run.weight_scale[t][i / 32] == biased);
        float part = run.master[t][i] / divisor;
        if (!std::isnan(part)) part = std::clamp(part, -highest, highest);
        REQUIRE(run.weight[t][i] == narrow(part, model));
      }
    });
  }
}

// `amax`: the magnitude that the tensor's scale follows from.
void check_fours(const Run& run, size_t t, float amax) {
  CAPTURE(t);
  float of_tensor = std::isfinite(amax) && amax >= 0x1p-108F ? amax / 2688 : 1;
  REQUIRE(run.of_tensor(t) == of_tensor);
  for_squares(kShapes[t], 16, [&](const std::vector<size_t>& places) {
    float ratio = largest(run.master[t], places) / 6 / of_tensor;
    if (!std::isnan(ratio)) ratio = std::clamp(ratio, 0x1p-6F, 448.0F);
    uint32_t scale = narrow(ratio, DType::f8e4m3);
    float factor = 1 / of_tensor / widen(scale, DType::f8e4m3);
    for (size_t i : places) {
      REQUIRE(run.weight_scale[t][i / 16] == scale);
      REQUIRE(run.code(t, i) == code_of(run.master[t][i] * factor));
    }
  });
}

float largest_of(const std::vector<float>& values) {
  std::vector<size_t> places(values.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = i;
  return largest(values, places);
}

}  // namespace

TEST_CASE("copies in squares: MXFP8 by either rounding on every device and form") {
  for (CopyScale how : {kMxfp8, kMxfp8Rceil}) {
    for (DType model : {DType::f8e4m3, DType::f8e5m2}) {
      for (const Device& device : {Device::interpreter(), Device::cpu(1), Device::cpu(3)}) {
        for (Form form : {Form::fused, Form::split, Form::unfused}) {
          Run run(options_of(model, how), false, device, form);
          for (float gradient : {0.0F, 0.25F}) {
            run.go(gradient);
            check_mx(run, model, how == kMxfp8Rceil);
          }
        }
      }
    }
  }
}

TEST_CASE("copies in squares: NVFP4 with this step's largest weight, or the last step's") {
  for (CopyScale how : {kNvfp4, kNvfp4Delayed}) {
    RecipeOptions options = options_of(DType::f8e4m3, how);
    options.model = {};
    for (const Device& device : {Device::interpreter(), Device::cpu(1), Device::cpu(3)}) {
      for (Form form : {Form::fused, Form::split, Form::unfused}) {
        Run run(options, true, device, form);
        std::vector<float> before(std::size(kShapes), 0.0F);
        for (float gradient : {0.0F, 0.25F, -0.25F, 1.0F}) {
          run.go(gradient);
          for (size_t t = 0; t < std::size(kShapes); ++t) {
            float amax = largest_of(run.master[t]);
            check_fours(run, t, how == kNvfp4 ? amax : before[t]);
            if (std::isfinite(amax) && amax > 0) before[t] = amax;
          }
        }
      }
    }
  }
}

TEST_CASE("copies in squares: the first of two codes is in the lower half of the byte") {
  RecipeOptions options{.master = true, .copy_scale = kNvfp4};
  Run run(options, true, Device::cpu(1), Form::fused);
  for (size_t i = 0; i < 16; ++i) run.master[2][i] = static_cast<float>(i) * 6 / 16;
  run.go(0);
  const auto* bytes = reinterpret_cast<const uint8_t*>(run.fours[2].data());
  for (size_t i = 0; i < 64; ++i) REQUIRE(((bytes[i / 2] >> (4 * (i % 2))) & 15) == run.code(2, i));
  CHECK(run.code(2, 0) == 0);
  CHECK(run.code(2, 1) != run.code(2, 14));
}

TEST_CASE("copies in squares: a conversion makes f32 masters of them") {
  for (auto [how, form] : {std::pair(kMxfp8, "mxfp8"), {kNvfp4, "nvfp4"}}) {
    bool is_four = how == kNvfp4;
    RecipeOptions options = options_of(DType::f8e4m3, how);
    if (is_four) options.model = {};
    Run run(options, is_four, Device::cpu(2), Form::fused);
    run.go(0);
    constexpr size_t kTensor = 1;
    std::vector<float> values(kShapes[kTensor].size());
    Step step(conversion(form, "f32"), Layout().add({.elements = values.size(), .columns = 32}),
              Device::cpu(2));
    std::string prefix = fmt::format("from.{}.", form);
    step.bind_raw(prefix + "weight", {is_four ? static_cast<void*>(run.fours[kTensor].data())
                                              : run.weight[kTensor].data()});
    step.bind_raw(prefix + "weight_scale", {run.weight_scale[kTensor].data()});
    step.bind_raw("to", {values.data()});
    step.prepare();
    step.init_state();
    if (is_four) {
      std::vector<Bits> of_tensor = {Bits::of(run.of_tensor(kTensor))};
      step.write_state(prefix + "copy_scale_inv", of_tensor);
    }
    step.run({}, step.make_args());
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t scale = run.weight_scale[kTensor][i / run.block];
      float expected = 0;
      if (is_four) {
        float factor = widen(scale, DType::f8e4m3) * run.of_tensor(kTensor);
        expected = value_of(run.code(kTensor, i)) * factor;
      } else {
        float code = widen(run.weight[kTensor][i], DType::f8e4m3);
        expected = std::ldexp(code, static_cast<int>(scale) - 127);
      }
      REQUIRE(values[i] == expected);
      REQUIRE(std::fabs(values[i] - run.master[kTensor][i]) <= 0.25F);
    }
  }
}

TEST_CASE("copies in squares: a skipped step leaves copy, scales and the tensor's scale") {
  RecipeOptions options{.master = true, .copy_scale = kNvfp4Delayed, .check = true};
  for (const Device& device : {Device::interpreter(), Device::cpu(2)}) {
    Run run(options, true, device, Form::fused);
    run.go(kInf);
    CHECK(run.weight_scale[1][0] == 99);
    CHECK(run.of_tensor(1) == 1);
    run.go(1);
    CHECK(run.of_tensor(1) == 1);
    float amax = largest_of(run.master[1]);
    run.go(kInf);
    CHECK(run.of_tensor(1) == 1);
    run.go(1);
    CHECK(run.of_tensor(1) == amax / 2688);
  }
}

TEST_CASE("copies in squares: shards that are cut between squares make the whole tensor's copy") {
  constexpr size_t kRows = 100, kColumns = 1024;
  auto run = [&](const std::vector<size_t>& cuts) {
    Step step(make_recipe("sgd", options_of(DType::f8e4m3, kMxfp8)), row_shards(cuts, kColumns),
              Device::cpu(2));
    std::vector<float> master(kRows * kColumns), grad(kRows * kColumns);
    std::vector<uint8_t> codes(master.size()), scales(master.size() / 32);
    for (size_t i = 0; i < master.size(); ++i) {
      master[i] = std::ldexp(std::sin(static_cast<float>(i)), static_cast<int>(i / 5000));
    }
    std::vector<void*> masters, grads, copies, all_scales;
    for (size_t k = 0; k + 1 < cuts.size(); ++k) {
      masters.push_back(&master[cuts[k] * kColumns]);
      grads.push_back(&grad[cuts[k] * kColumns]);
      copies.push_back(&codes[cuts[k] * kColumns]);
      all_scales.push_back(&scales[cuts[k] * kColumns / 32]);
    }
    step.bind_raw("master", masters);
    step.bind_raw("weight", copies);
    step.bind_raw("weight_scale", all_scales);
    step.prepare();
    step.run(grads, step.make_args());
    return std::pair(codes, scales);
  };
  auto whole = run({0, kRows});
  CHECK(whole == run({0, 32, 64, kRows}));
  std::string message = message_of(ErrorKind::bind, [&] { run({0, 16, kRows}); });
  CHECK(has(message, "tensor 0 'w' is a shard that is cut within 32 rows of 1024"));
  CHECK(has(message, "at multiples of 32768 elements"));
}

TEST_CASE("copies in squares: rows that are not whole blocks are refused with their length") {
  RecipeOptions options{.master = true, .copy_scale = kNvfp4};
  Layout layout;
  layout.add({.elements = 3 * 40, .columns = 40});
  std::string message = message_of(
      ErrorKind::bind, [&] { Step(make_recipe("sgd", options), layout, Device::cpu(1)); });
  CHECK(has(message, "has rows of 40, which are not a multiple of the blocks of 16"));
}
