// Adaptive gradient clipping compared with a model of timm's adaptive_clip_grad in double, on every
// device and form.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/ir.hpp>
#include <stepfuse/recipes.hpp>
#include <stepfuse/stepfuse.hpp>

#include "ir/semantics/narrow.hpp"
#include "ir/semantics/semantics.hpp"
#include "tests/support/messages.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

struct Shape {
  size_t rows, columns;
  size_t group = 0;
};
// Rows shorter and longer than a piece, a bias, rows of one element, no elements; groups with
// different clipping.
const std::vector<Shape> kShapes = {{7, 300}, {1, 5},     {2, 20'000}, {9, 1},
                                    {0, 3},   {4, 16, 1}, {4, 16, 2}};
const double kFactors[] = {0.01, 0.5, 1e-5};

// Magnitudes of rows differ widely. The first tensor's weights and the second one's gradients are
// zeros, and the last tensor's gradients are below 1e-6.
float weight_at(size_t t, size_t row, size_t i) {
  return row == 0 ? 0 : std::sin(static_cast<float>(i + 7 * t)) * static_cast<float>(row);
}
float grad_at(size_t t, size_t row, size_t i) {
  if (row == 1) return 0;
  float size = t == 6 ? 1e-7F : row % 3 == 0 ? 1e-4F : 0.5F;
  return std::cos(static_cast<float>(3 * i + t)) * size;
}

using Values = std::vector<std::vector<float>>;
Values arrays(float (*value)(size_t, size_t, size_t)) {
  Values all;
  for (size_t t = 0; t < kShapes.size(); ++t) {
    auto& a = all.emplace_back();
    for (size_t row = 0; row < kShapes[t].rows; ++row) {
      for (size_t i = 0; i < kShapes[t].columns; ++i) a.push_back(value(t, row, i));
    }
  }
  return all;
}
std::vector<void*> pointers(Values& of) {
  std::vector<void*> list;
  for (auto& a : of) list.push_back(a.data());
  return list;
}
Layout layout() {
  Layout layout;
  for (const Shape& s : kShapes) {
    layout.add({.elements = s.rows * s.columns,
                .group = static_cast<int>(s.group),
                .columns = s.rows == 1 ? 0 : s.columns});
  }
  return layout;
}

double norm(const float* row, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  return std::sqrt(sum);
}
double coefficient(const float* weights, const float* grads, size_t n, double factor, double eps) {
  double bound = std::max(norm(weights, n), eps) * factor;
  double own = norm(grads, n);
  return own < bound ? 1 : bound / std::max(own, 1e-6);
}

// The weights after one SGD step with lr 1.
Values stepped(const Device& device, Form form, bool second_is_absent) {
  Values weights = arrays(weight_at), grads = arrays(grad_at);
  Step step(make_recipe("sgd", {.clip = Clip::agc}), layout(), device, {.form = form});
  step.bind_raw("weight", pointers(weights));
  step.prepare();
  Args args = step.make_args();
  args.set("lr", 1);
  for (size_t g = 0; g < 3; ++g) args.set("clip_factor", Group{static_cast<int>(g)}, kFactors[g]);
  std::vector<void*> list = pointers(grads);
  if (second_is_absent) list[2] = nullptr;
  step.run(list, args);
  return weights;
}

}  // namespace

TEST_CASE("agc: each row is clipped by its weights' norm, as timm's adaptive_clip_grad") {
  for (bool absent : {false, true}) {
    Values weights = arrays(weight_at), grads = arrays(grad_at);
    Values ours = stepped(Device::interpreter(), Form::fused, absent);
    size_t clipped = 0, left = 0;
    for (size_t t = 0; t < kShapes.size(); ++t) {
      for (size_t row = 0; row < kShapes[t].rows; ++row) {
        size_t n = kShapes[t].columns;
        const float* w = weights[t].data() + row * n;
        const float* g = grads[t].data() + row * n;
        double c = coefficient(w, g, n, kFactors[kShapes[t].group], 1e-3);
        ++(c < 1 ? clipped : left);
        if (absent && t == 2) c = 0;
        for (size_t i = 0; i < n; ++i) {
          double expected = static_cast<double>(w[i]) - c * static_cast<double>(g[i]);
          double size = std::fabs(static_cast<double>(w[i])) + 1e-30;
          REQUIRE(static_cast<double>(ours[t][row * n + i]) ==
                  doctest::Approx(expected).epsilon(1e-6).scale(size));
        }
      }
    }
    CHECK(clipped > 5);
    CHECK(left > 5);
    for (const Device& device : {Device::cpu(1), Device::cpu(3)}) {
      for (Form form : {Form::fused, Form::split, Form::unfused}) {
        CHECK(stepped(device, form, absent) == ours);
      }
    }
  }
}

TEST_CASE(
    "agc: the master is what is measured, behind the loss scale; what is not finite is skipped") {
  for (const Device& device : {Device::interpreter(), Device::cpu(2)}) {
    std::vector<uint16_t> copy(4, 0), grads(4);
    std::vector<float> master = {3, 4, 0.3F, 0.4F};
    LossScaler scaler({.init_scale = 8});
    Step step(make_recipe("sgd", {.grad = DType::bf16,
                                  .master = true,
                                  .loss_scale = LossScale::fixed,
                                  .clip = Clip::agc}),
              Layout().add({.elements = 4, .columns = 2}), device, {.scaler = &scaler});
    step.bind_raw("weight", {copy.data()});
    step.bind_raw("master", {master.data()});
    step.prepare();
    step.adopt_state();
    Args args = step.make_args();
    args.set("lr", 1);
    auto run = [&](float g) {
      for (auto& v : grads) v = static_cast<uint16_t>(narrow(g, DType::bf16));
      step.run({grads.data()}, args);
      return *step.latest();
    };
    // Gradients of 8 / 8 have row norms of sqrt(2) and are clipped to a hundredth of 5 and of 0.5.
    run(8);
    CHECK(master[0] == doctest::Approx(3 - 0.05 / std::sqrt(2.0)));
    CHECK(master[3] == doctest::Approx(0.4 - 0.005 / std::sqrt(2.0)));
    auto before = master;
    CHECK(run(std::numeric_limits<float>::infinity()).at("skipped") == 1);
    CHECK(master == before);
  }
}

TEST_CASE("agc: shards that are cut between rows have the bits of the whole") {
  constexpr size_t kRow = 4096, kAll = 8 * kRow;
  auto run = [&](const std::vector<TensorSpec>& parts) {
    std::vector<float> weights(kAll), grads(kAll);
    for (size_t i = 0; i < kAll; ++i) {
      weights[i] = std::sin(static_cast<float>(i));
      grads[i] = std::cos(static_cast<float>(i)) * 0.1F;
    }
    Layout layout;
    std::vector<void*> w, g;
    for (const TensorSpec& part : parts) {
      layout.add(part);
      w.push_back(weights.data() + part.offset);
      g.push_back(grads.data() + part.offset);
    }
    Step step(make_recipe("sgd", {.clip = Clip::agc}), layout, Device::cpu(2));
    step.bind_raw("weight", w);
    step.prepare();
    step.run(g, step.make_args());
    return weights;
  };
  auto whole = run({{.elements = kAll, .columns = kRow}});
  CHECK(whole ==
        run({{.elements = kAll / 2, .full_elements = kAll, .columns = kRow},
             {.elements = kAll / 2, .offset = kAll / 2, .full_elements = kAll, .columns = kRow}}));
}

namespace {

void fill(std::vector<uint8_t>& bytes, const Buffer& buffer) {
  if (buffer.dtypes.only() == DType::f8e4m3) return;  // a copy
  for (size_t i = 0; i < bytes.size() / size_of(buffer.dtypes.only()); ++i) {
    float value = std::sin(static_cast<float>(i)) * (i % 700 < 300 ? 1.0F : 1e-3F);
    Bits bits = sem::cast(Bits::of(value), DType::f32, buffer.dtypes.only());
    std::memcpy(bytes.data() + i * size_of(buffer.dtypes.only()), &bits.raw,
                size_of(buffer.dtypes.only()));
  }
}

// The bytes of all arrays after some AdamW steps over rows.
std::vector<std::vector<uint8_t>> trained(const RecipeOptions& options,
                                          const std::vector<Shape>& shapes, const Device& device,
                                          Form form) {
  Program program = make_recipe("adamw", options);
  Layout layout;
  for (const Shape& s : shapes) {
    layout.add({.elements = s.rows * s.columns, .columns = s.rows == 1 ? 0 : s.columns});
  }
  Step step(program, layout, device, {.form = form});
  std::vector<std::vector<uint8_t>> arrays;
  std::vector<std::vector<float>> grads(shapes.size());
  std::vector<void*> list;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.name == "grad") continue;
    size_t first = arrays.size();
    for (const Shape& s : shapes) {
      arrays.emplace_back(
          buffer.count(s.rows * s.columns, s.columns) * size_of(buffer.dtypes.only()), 0);
    }
    std::vector<void*> bound;
    for (size_t t = first; t < arrays.size(); ++t) {
      if (buffer.name == "weight" || buffer.name == "master") fill(arrays[t], buffer);
      bound.push_back(arrays[t].data());
    }
    step.bind_raw(buffer.name, bound);
  }
  step.prepare();
  step.init_state();
  for (size_t t = 0; t < shapes.size(); ++t) {
    grads[t].resize(shapes[t].rows * shapes[t].columns);
    list.push_back(grads[t].data());
  }
  Args args = step.make_args();
  args.set("clip_factor", 0.5);
  args.set("lr", 0.05);
  for (int k = 0; k < 3; ++k) {
    for (size_t t = 0; t < shapes.size(); ++t) {
      for (size_t i = 0; i < grads[t].size(); ++i) {
        float size = std::exp2(static_cast<float>(i / shapes[t].columns % 12) - 9);
        grads[t][i] = size * std::sin(static_cast<float>(i * 7 + static_cast<size_t>(k)));
      }
    }
    step.run(list, args);
  }
  return arrays;
}

}  // namespace

TEST_CASE(
    "agc: with moments in blocks and stochastically rounded weights, the same on all devices") {
  RecipeOptions drawn{.model = DType::bf16, .clip = Clip::agc};
  drawn.weight_rounding = WeightRounding::stochastic;
  std::vector<Shape> anywhere = {{9, 147, 0}, {1, 77, 0}, {5, 3, 0}, {2, 16390, 0}, {30, 256, 0}};
  RecipeOptions blocks{.moments = "fp8", .clip = Clip::agc};
  RecipeOptions copies{
      .master = true, .model = DType::f8e4m3, .copy_scale = CopyScale::mx, .clip = Clip::agc};
  std::vector<Shape> whole = {{9, 256, 0}, {1, 77, 0}, {3, 512, 0}, {2, 16640, 0}, {1, 40000, 0}};
  for (const auto& [options, shapes] :
       {std::pair{drawn, anywhere}, {blocks, whole}, {copies, whole}}) {
    auto expected = trained(options, shapes, Device::interpreter(), Form::fused);
    for (const Device& device : {Device::cpu(1), Device::cpu(3)}) {
      for (Form form : {Form::fused, Form::split, Form::unfused}) {
        CHECK(trained(options, shapes, device, form) == expected);
      }
    }
  }
}

TEST_CASE("agc: what blocks do not go with is said") {
  RecipeOptions blocks{.moments = "fp8", .clip = Clip::agc};
  CHECK(has(message_of(ErrorKind::bind,
                       [&] {
                         Layout layout;
                         layout.add({.name = "w", .elements = 9 * 147, .columns = 147});
                         Step step(make_recipe("adamw", blocks), layout, Device::cpu(1));
                       }),
            "tensor 0 'w' has rows of 147, which are not a multiple of the blocks of 256"));
  blocks.moments_below = 4096;
  Layout layout;
  layout.add({.name = "w", .elements = 9 * 147, .columns = 147});
  Step small(make_recipe("adamw", blocks), layout, Device::cpu(1));  // has no such moments
  RecipeOptions moments{.moments = "fp8"};
  Optimizer columns = parse_optimizer(
      "optimizer o \"\" {\n  hyper lr = 1\n  moment m\n  m = m + g\n  w = w - lr * m / norm(g, "
      "column)\n}");
  CHECK(has(message_of(ErrorKind::usage, [&] { make_recipe(columns, moments); }),
            "o has per-column values, and a block has elements of several columns; use .moments = "
            "f32 or bf16"));
  RecipeOptions groups{.clip = Clip::agc, .clip_per_group = true};
  CHECK(has(message_of(ErrorKind::usage, [&] { make_recipe("adamw", groups); }), "l2, l1 or inf"));
}
