// Weights below f32 without a master: random bits belong to the tensor, whether it is cut, resumed
// or skipped, on every device, form and thread count.
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/checkpoint.hpp>
#include <stepfuse/stepfuse.hpp>

#include "tests/support/scratch_folder.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr uint64_t kPiece = 16384;
constexpr size_t kSize = 2 * kPiece + 777;

// One tensor of kSize elements in bf16, whole or in shards.
struct Run {
  std::vector<uint16_t> weight = std::vector<uint16_t>(kSize);
  std::vector<float> grad = std::vector<float>(kSize);
  std::vector<void*> weights, grads;
  Step step;

  explicit Run(const Layout& layout, const Device& device = Device::interpreter(),
               Form form = Form::fused, std::string_view recipe = "sgd")
      : step(make_recipe(recipe, {.weight_rounding = WeightRounding::stochastic, .check = true}),
             layout, device, {.form = form}) {
    for (size_t i = 0; i < kSize; ++i) {
      weight[i] = static_cast<uint16_t>(0x3f80 + i % 128);  // 1 … 2
      grad[i] = std::ldexp(static_cast<float>(i % 997) - 500, -12);
    }
    for (const TensorSpec& t : layout.tensors()) {
      weights.push_back(weight.data() + t.offset);
      grads.push_back(grad.data() + t.offset);
    }
    step.bind_raw("weight", weights);
    step.prepare();
    step.init_state();
    seed(5);
  }
  void seed(int64_t v) {
    Bits bits = Bits::of(v);
    step.write_state("seed", {&bits, 1});
  }
  void run(int count = 1) {
    Args args = step.make_args();
    args.set("lr", 0.01);
    for (int i = 0; i < count; ++i) step.run(grads, args);
  }
};

Layout whole() {
  Layout layout;
  layout.add({.elements = kSize, .id = 3});
  return layout;
}

}  // namespace

TEST_CASE("shards, devices, threads and forms: a weight is rounded by its own random bits") {
  Run expected(whole());
  expected.run(3);
  CHECK(expected.weight != Run(whole()).weight);
  Layout shards;
  shards.add({.elements = kPiece, .id = 3})
      .add({.elements = kSize - kPiece, .offset = kPiece, .id = 3});
  // FSDP2 cuts between rows, not between pieces.
  Layout rows;
  uint64_t row = 4 * 1013;
  rows.add({.elements = row, .id = 3}).add({.elements = kSize - row, .offset = row, .id = 3});
  for (const Device& device : {Device::interpreter(), Device::cpu(1), Device::cpu(3)}) {
    for (const Layout& layout : {whole(), shards, rows}) {
      for (Form form : {Form::fused, Form::unfused}) {
        Run run(layout, device, form);
        run.run(3);
        CHECK(run.weight == expected.weight);
      }
    }
  }
  Layout other;
  other.add({.elements = kSize});  // id 0
  Run as_other(other);
  as_other.run(3);
  CHECK(as_other.weight != expected.weight);
}

TEST_CASE("a skipped step draws nothing") {
  Run expected(whole(), Device::cpu(2));
  expected.run(2);
  Run run(whole(), Device::cpu(2));
  run.run();
  float kept = run.grad[9];
  run.grad[9] = std::numeric_limits<float>::infinity();
  run.run(2);
  run.grad[9] = kept;
  run.run();
  CHECK(run.weight == expected.weight);
}

TEST_CASE("a resumed run rounds as the whole one would have; another seed does not") {
  ScratchFolder folder;
  std::string path = (folder.path() / "step.safetensors").string();
  Run expected(whole(), Device::cpu(2));
  expected.run(4);
  Run first(whole(), Device::cpu(2));
  first.run(2);
  save_checkpoint(path, first.step);
  Run second(whole(), Device::cpu(2));
  second.seed(77);  // loading the checkpoint replaces this seed
  second.weight = first.weight;
  for (size_t t = 0; t < second.weights.size(); ++t) second.weights[t] = second.weight.data();
  second.step.bind_raw("weight", second.weights);
  load_checkpoint(path, second.step);
  CHECK(second.step.read_state("seed")[0].i64() == 5);
  second.run(2);
  CHECK(second.weight == expected.weight);
  Layout other;
  other.add({.elements = kSize, .id = 4});
  Run elsewhere(other);
  CHECK_THROWS_WITH_AS(load_checkpoint(path, elsewhere.step),
                       doctest::Contains("a different layout"), Error);
  Run seeded(whole());
  seeded.seed(6);
  seeded.run(4);
  CHECK(seeded.weight != expected.weight);
}

TEST_CASE("stochastically rounded weights below f32 arrive where f32 weights do, on average") {
  for (std::string_view recipe : {"adamw", "lion"}) {
    CAPTURE(recipe);
    RecipeOptions options{.weight_rounding = WeightRounding::stochastic};
    Layout layout;
    layout.add({.elements = kSize});
    std::vector<uint16_t> weight(kSize, 0x3fc0);  // 1.5
    std::vector<float> grad(kSize, 0.5F);
    std::vector<float> m(kSize);
    std::vector<float> v(kSize);
    Step step(make_recipe(recipe, options), layout, Device::cpu(2));
    step.bind_raw("weight", {weight.data()});
    step.bind_raw("exp_avg", {m.data()});
    if (step.program().find_buffer("exp_avg_sq") >= 0) step.bind_raw("exp_avg_sq", {v.data()});
    step.prepare();
    step.init_state();
    Args args = step.make_args();
    args.set("weight_decay", 0);
    args.set("lr", 1e-4);  // a 78th of the distance between bf16 numbers at 1.5
    for (int i = 0; i < 100; ++i) step.run({grad.data()}, args);
    double sum = 0;
    for (uint16_t w : weight) sum += std::bit_cast<float>(uint32_t{w} << 16);
    CHECK(sum / static_cast<double>(kSize) == doctest::Approx(1.49).epsilon(0.0003));
  }
}
