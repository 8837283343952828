// Gradients stored with a scale of their own for each tensor: the step is that of the gradients
// they stand for.
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

#include "ir/semantics/narrow.hpp"
#include "tests/support/messages.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr uint64_t kSizes[] = {20'001, 5, 300};
constexpr size_t kTensors = std::size(kSizes), kAll = 20'306;

float number(size_t i, int step) {
  return static_cast<float>((i * 37 + static_cast<size_t>(step) * 11) % 101) * 0.02F - 1.0F;
}

// AdamW behind unscaling, check and clip, over three tensors.
struct Trainer {
  LossScaler scaler{{.init_scale = 8}};
  std::vector<float> arrays = std::vector<float>(3 * kAll, 0.25F);
  std::vector<float> wide = std::vector<float>(kAll);
  std::vector<uint8_t> bytes = std::vector<uint8_t>(kAll);
  DType stored;
  Step step;
  Args args;

  static Layout layout(DType stored) {
    Layout l;
    for (uint64_t size : kSizes) l.add({.elements = size, .dtypes = {{"grad", stored}}});
    return l;
  }
  Trainer(const Device& device, Form form, DType grad)
      : stored(grad),
        step(make_recipe("adamw", {.grad = grad,
                                   .grad_scale = grad != DType::f32,
                                   .loss_scale = LossScale::dynamic,
                                   .clip = Clip::l2}),
             layout(grad), device, {.form = form, .scaler = &scaler}),
        args(step.make_args()) {
    step.prepare();
    const char* names[] = {"weight", "exp_avg", "exp_avg_sq"};
    for (size_t k = 0; k < 3; ++k) step.bind_raw(names[k], pointers(&arrays[k * kAll]));
    step.init_state();
    args.set("lr", 0.01);
  }
  template <class T>
  static std::vector<T*> pointers(T* first) {
    std::vector<T*> out;
    for (uint64_t size : kSizes) {
      out.push_back(first);
      first += size;
    }
    return out;
  }
  // Numbers that this type has, times each tensor's factor.
  void run(int i, const std::vector<float>& factors, DType type) {
    size_t at = 0;
    for (size_t t = 0; t < kTensors; ++t) {
      if (stored != DType::f32) args.set("grad_scale_inv", Tensor{t}, factors[t]);
      for (uint64_t k = 0; k < kSizes[t]; ++k, ++at) {
        bytes[at] = static_cast<uint8_t>(narrow(number(at, i), type));
        wide[at] = widen(bytes[at], type) * factors[t];
      }
    }
    if (stored == DType::f32) {
      step.run(pointers(wide.data()), args);
    } else {
      step.run(pointers(bytes.data()), args);
    }
    (void)step.stats();  // waits
  }
};

}  // namespace

TEST_CASE(
    "8-bit gradients with a scale for each tensor make the step of the gradients they stand for") {
  for (DType type : {DType::f8e4m3, DType::f8e5m2}) {
    for (const Device& device : {Device::interpreter(), Device::cpu(2)}) {
      for (Form form : {Form::fused, Form::split, Form::unfused}) {
        CAPTURE(name(type));
        Trainer scaled(device, form, type), plain(device, form, DType::f32);
        CacheStats before = cache_stats();
        for (int i = 0; i < 4; ++i) {
          std::vector<float> factors = {0.3F, 1e-4F * static_cast<float>(i + 1), 700};
          scaled.run(i, factors, type);
          plain.run(i, factors, type);
          REQUIRE(scaled.arrays == plain.arrays);
          CHECK(scaled.step.latest()->at("grad_norm") == plain.step.latest()->at("grad_norm"));
          CHECK(scaled.step.latest()->at("grad_norm") > 1);
        }
        CHECK(cache_stats().compiled == before.compiled);  // factors are data
        // A scale that is not finite, of a maximum that was not: the step is skipped.
        std::vector<float> kept = scaled.arrays;
        scaled.run(4, {1, std::numeric_limits<float>::infinity(), 1}, type);
        CHECK(scaled.step.latest()->at("found_inf") == 1);
        CHECK(scaled.arrays == kept);
        CHECK(scaled.scaler.read() == 4);
      }
    }
  }
}

TEST_CASE("micro-batches are summed as the gradients they stand for") {
  std::vector<uint8_t> bytes = {0x38, 0x40, 0xb8};  // 1, 2, -1 in e4m3
  std::vector<float> sum(3);
  Layout layout;
  layout.add({.elements = 3, .dtypes = {{"grad", DType::f8e4m3}}});
  LossScaler scaler;
  Step step(make_recipe("accumulate", {.grad = DType::f8e4m3, .grad_scale = true}), layout,
            Device::cpu(1), {.scaler = &scaler});
  std::vector<void*> g = {bytes.data()}, s = {sum.data()};
  step.prepare();
  step.bind_raw("grad_sum", s);
  step.init_state();
  Args args = step.make_args();
  args.set("grad_scale_inv", Tensor{0}, 0.5);
  step.run(g, args);
  args.set("grad_scale_inv", Tensor{0}, 3);
  step.run(g, args);
  (void)step.stats();
  CHECK(sum == std::vector<float>{3.5F, 7, -3.5F});
}

TEST_CASE("what a gradient's own scale does not go with is refused") {
  CHECK(has(message_of(ErrorKind::usage,
                       [] {
                         make_recipe(
                             "sgd",
                             {.grad = DType::f8e4m3, .grad_scale = true, .round_grad = true});
                       }),
            "leave it out"));
  CHECK(has(message_of(ErrorKind::usage,
                       [] { make_recipe("sgd", {.grad_scale = true, .window = true}); }),
            "accumulate"));
}
