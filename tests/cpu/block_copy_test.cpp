// 8-bit weight copies with a scale for 128 rows of 128 columns, beside an independent model of
// TransformerEngine's rule.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/recipes.hpp>
#include <stepfuse/stepfuse.hpp>

#include "ir/semantics/narrow.hpp"
#include "tests/cpu/copy_options.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/row_shards.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

struct Shape {
  size_t rows, columns;
  size_t along() const { return (columns + 127) / 128; }
  size_t squares() const { return (rows + 127) / 128 * along(); }
};
constexpr Shape kShapes[] = {{130, 257}, {1, 5}, {128, 128}, {127, 1}, {1, 300}, {300, 130}};

// Weights of sizes far apart from square to square; among the first tensor's a square of zeros,
// ones with a NaN, with an infinity and with nothing but subnormal numbers.
float weight_at(const Shape& s, size_t row, size_t column) {
  size_t square = row / 128 * s.along() + column / 128;
  float x = std::sin(static_cast<float>(7 * row + column)) *
            std::exp2(static_cast<float>(square * 37 % 200) - 100);
  if (s.rows != 130) return x;
  if (square == 1) return 0;
  if (square == 2 && row == 100 && column == 256) return std::numeric_limits<float>::infinity();
  if (square == 3 && column == 3) return std::numeric_limits<float>::quiet_NaN();
  if (square == 4) return row == 129 && column == 255 ? 1e-42F : -1e-44F;
  return x;
}

struct Run {
  std::vector<std::vector<uint8_t>> weight;
  std::vector<std::vector<float>> weight_scale, master, grad;
  Step step;

  Run(const RecipeOptions& options, const Device& device, Form form)
      : step(make_recipe("sgd", options), layout(), device, {.form = form}) {
    std::vector<void*> weights, scales, masters;
    for (const Shape& s : kShapes) {
      weight.emplace_back(s.rows * s.columns, 0);
      weight_scale.emplace_back(s.squares(), -1.0F);
      grad.emplace_back(s.rows * s.columns, 0.0F);
      std::vector<float>& own = master.emplace_back();
      for (size_t i = 0; i < s.rows * s.columns; ++i)
        own.push_back(weight_at(s, i / s.columns, i % s.columns));
    }
    for (size_t t = 0; t < weight.size(); ++t) {
      weights.push_back(weight[t].data());
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
      layout.add({.elements = s.rows * s.columns, .columns = s.rows == 1 ? 0 : s.columns});
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
};

// compute_scale_from_amax, with the largest number for a scale beyond the numbers.
float scale_of(float amax, DType model, bool power) {
  float highest = model == DType::f8e4m3 ? 448 : 57344;
  if (!(amax > 0) || std::isinf(amax)) return 1;
  float scale = highest / amax;
  if (std::isinf(scale)) scale = std::numeric_limits<float>::max();
  return power ? std::exp2(static_cast<float>(std::ilogb(scale))) : scale;
}

void check(const Run& run, DType model, bool power) {
  for (size_t t = 0; t < std::size(kShapes); ++t) {
    const Shape& s = kShapes[t];
    for (size_t square = 0; square < s.squares(); ++square) {
      size_t row = square / s.along() * 128, column = square % s.along() * 128;
      std::vector<size_t> places;
      for (size_t r = row; r < std::min(s.rows, row + 128); ++r) {
        for (size_t c = column; c < std::min(s.columns, column + 128); ++c)
          places.push_back(r * s.columns + c);
      }
      float amax = 0;
      bool is_nan = false;
      for (size_t i : places) {
        is_nan |= std::isnan(run.master[t][i]);
        amax = std::max(amax, std::fabs(run.master[t][i]));
      }
      float scale = is_nan ? 1 : scale_of(amax, model, power);
      CAPTURE(t);
      CAPTURE(square);
      REQUIRE(run.weight_scale[t][square] == 1 / scale);
      for (size_t i : places) REQUIRE(run.weight[t][i] == narrow(run.master[t][i] * scale, model));
    }
  }
}

}  // namespace

TEST_CASE("copies with a scale for 128x128: TransformerEngine's rule on every device and form") {
  for (DType model : {DType::f8e4m3, DType::f8e5m2}) {
    for (const Device& device : {Device::interpreter(), Device::cpu(1), Device::cpu(3)}) {
      for (Form form : {Form::fused, Form::split, Form::unfused}) {
        for (CopyScale how : {CopyScale::block128, CopyScale::block128_f32}) {
          Run run(options_of(model, how), device, form);
          run.go(0);
          check(run, model, how == CopyScale::block128);
          run.go(0.25);
          check(run, model, how == CopyScale::block128);
        }
      }
    }
  }
}

TEST_CASE("copies with a scale for 128x128: a skipped step leaves copy and scales") {
  RecipeOptions options{
      .master = true, .model = DType::f8e4m3, .copy_scale = CopyScale::block128, .check = true};
  for (const Device& device : {Device::interpreter(), Device::cpu(2)}) {
    Run run(options, device, Form::fused);
    run.go(std::numeric_limits<float>::infinity());
    CHECK(run.weight_scale[0][0] == -1);
    CHECK(std::count(run.weight[0].begin(), run.weight[0].end(), 0) == 130 * 257);
    run.go(1);
    CHECK(run.weight_scale[0][0] > 0);
  }
}

TEST_CASE("copies with a scale for 128x128: shards are cut where 128 rows begin") {
  constexpr size_t kRows = 300, kColumns = 256;
  auto run = [&](const std::vector<size_t>& cuts) {
    Step step(make_recipe("sgd", options_of(DType::f8e4m3, CopyScale::block128)),
              row_shards(cuts, kColumns), Device::cpu(2));
    std::vector<float> master(kRows * kColumns), grad(kRows * kColumns), scales(6, -1.0F);
    std::vector<uint8_t> codes(kRows * kColumns);
    for (size_t i = 0; i < master.size(); ++i) {
      master[i] = std::ldexp(std::sin(static_cast<float>(i)), static_cast<int>(i / 5000));
    }
    std::vector<void*> masters, grads, copies, all_scales;
    for (size_t k = 0; k + 1 < cuts.size(); ++k) {
      masters.push_back(&master[cuts[k] * kColumns]);
      grads.push_back(&grad[cuts[k] * kColumns]);
      copies.push_back(&codes[cuts[k] * kColumns]);
      all_scales.push_back(&scales[cuts[k] / 128 * 2]);
    }
    step.bind_raw("master", masters);
    step.bind_raw("weight", copies);
    step.bind_raw("weight_scale", all_scales);
    step.prepare();
    step.run(grads, step.make_args());
    return std::pair(codes, scales);
  };
  auto whole = run({0, kRows});
  CHECK(whole == run({0, 128, 256, kRows}));
  CHECK(whole == run({0, 256, kRows}));
  std::string message = message_of(ErrorKind::bind, [&] { run({0, 64, kRows}); });
  CHECK(has(message, "tensor 0 'w' is a shard that is cut within 128 rows of 256"));
  CHECK(has(message, "at multiples of 32768 elements"));
}

TEST_CASE("copies with a scale for 128x128: a step of four lines makes f32 masters of them") {
  Run run(options_of(DType::f8e4m3, CopyScale::block128), Device::cpu(2), Form::fused);
  run.go(0);
  Step step(parse(R"(step @masters {
  buffer @weight : f8e4m3 in
  buffer @weight_scale : <f32/128x128> in
  buffer @master : f32 out
  %code = load @weight : [f8e4m3]
  %scale = load @weight_scale : <f32/128x128>
  %wide = cast %code : [f32]
  %master = mul %wide, %scale : [f32]
  store @master, %master
})"),
            Layout().add({.elements = 300 * 130, .columns = 130}), Device::cpu(2));
  std::vector<float> master(size_t{300} * 130);
  step.bind_raw("weight", {run.weight[5].data()});
  step.bind_raw("weight_scale", {run.weight_scale[5].data()});
  step.bind_raw("master", {master.data()});
  step.prepare();
  step.run({}, step.make_args());
  for (size_t i = 0; i < master.size(); ++i) {
    float own = run.master[5][i];
    size_t square = i / 130 / 128 * 2 + i % 130 / 128;
    float least = std::ldexp(run.weight_scale[5][square], -9);  // of the type's numbers
    REQUIRE(std::fabs(master[i] - own) <= std::max(std::fabs(own) / 16, least));
  }
}
