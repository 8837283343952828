// Accumulation windows: sums, divisor, a bad micro-batch, the scale that must not change.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

using namespace stepfuse;

namespace {

// SGD with lr 1 over one tensor of 3, whose gradients are f32 sums of f16 micro-batches.
struct Trainer {
  LossScaler scaler{{.init_scale = 8}};
  std::vector<uint16_t> micro = std::vector<uint16_t>(3);
  std::vector<float> sum = std::vector<float>(3);
  std::vector<float> weight = std::vector<float>(3);
  Step accumulate = make("accumulate", {.grad = DType::f16});
  Step step = make("sgd", {.loss_scale = LossScale::dynamic, .window = true});
  Args args = step.make_args();

  Step make(const char* name, RecipeOptions options) {
    options.weight_decay =
        std::string_view(name) == "sgd" ? std::optional(WeightDecay::none) : std::nullopt;
    Layout layout;
    layout.add({.name = "w", .elements = 3});
    return Step(make_recipe(name, options), layout, Device::cpu(1), {.scaler = &scaler});
  }
  Trainer() {
    std::vector<void*> s = {sum.data()};
    std::vector<void*> w = {weight.data()};
    accumulate.bind_raw("grad_sum", s);
    step.bind_raw("weight", w);
    accumulate.init_state();
    accumulate.prepare();
    step.prepare();
    args.set("lr", 1);
  }
  void add(uint16_t bits) {
    micro.assign(3, bits);
    std::vector<void*> g = {micro.data()};
    accumulate.run(g, accumulate.make_args());
  }
  void update(double count) {
    args.set("accumulation", count);
    std::vector<void*> g = {sum.data()};
    step.run(g, args);
  }
};

constexpr uint16_t kOne = 0x3c00, kTwo = 0x4000, kInf = 0x7c00;

}  // namespace

TEST_CASE("a window is summed, divided by scale and count, and cleared") {
  Trainer t;
  t.add(kOne);
  t.add(kTwo);
  CHECK(t.sum == std::vector<float>(3, 3.0F));
  t.update(2);
  CHECK(t.weight == std::vector<float>(3, -3.0F / 8 / 2));
  CHECK(t.sum == std::vector<float>(3, 0.0F));
  CHECK(t.step.latest()->at("micro_batches_done") == 2);
  CHECK(t.scaler.read("micro_batches") == 0);
  t.add(kTwo);  // a short last window, by its actual count
  t.update(1);
  CHECK(t.weight == std::vector<float>(3, -3.0F / 16 - 2.0F / 8));
}

TEST_CASE("a bad micro-batch is remembered and its window skipped as a whole") {
  Trainer t;
  t.add(kOne);
  t.add(kInf);
  t.add(kOne);
  t.update(3);
  CHECK(t.weight == std::vector<float>(3, 0.0F));
  CHECK(t.step.latest()->at("first_nonfinite_micro_batch") == 1);
  CHECK(t.step.latest()->at("skipped") == 1);
  CHECK(t.scaler.read() == 4);
  CHECK(t.sum == std::vector<float>(3, 0.0F));
  t.add(kOne);
  t.update(1);
  CHECK(t.weight == std::vector<float>(3, -0.25F));
}

TEST_CASE("the scale cannot change inside a window") {
  Trainer t;
  t.scaler.write("scale", 16);
  t.add(kOne);
  CHECK_THROWS_AS(t.scaler.write("scale", 32), Error);
  t.update(1);
  t.scaler.write("scale", 32);
  CHECK(t.scaler.read() == 32);
}

TEST_CASE("a window's micro-batches count by themselves, unless accumulation is set") {
  Trainer t;
  for (int n : {1, 3, 2}) {
    t.weight.assign(3, 0);
    for (int i = 0; i < n; ++i) t.add(kTwo);
    t.update(0);
    CHECK(t.weight == std::vector<float>(3, -2.0F / 8));
  }
  t.weight.assign(3, 0);
  t.add(kTwo);
  t.add(kTwo);
  t.update(4);
  CHECK(t.weight == std::vector<float>(3, -2.0F / 8 / 2));
  t.weight.assign(3, 0);
  t.update(0);  // of none
  CHECK(t.weight == std::vector<float>(3, 0.0F));
}
