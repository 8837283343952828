// Arrays with element types and lengths, and the types of groups, tensors and streams: what compiles, what bind() and
// gradients() accept, and what they refuse.
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

#include "tests/support/messages.hpp"

namespace {

// A trainer's own half.
struct Half {
  uint16_t bits = 0;
};

}  // namespace

template <>
inline constexpr stepfuse::DTypeSet stepfuse::storage_of<Half> = stepfuse::DType::f16;

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// f16 weights and gradients with f32 masters, two tensors in two groups.
struct Mixed {
  std::vector<uint16_t> weight_a = std::vector<uint16_t>(100, 0x3c00);  // 1.0
  std::array<Half, 3> weight_b = {{{0x3c00}, {0x3c00}, {0x3c00}}};
  std::vector<Half> grad_a = std::vector<Half>(100, Half{0x3c00});
  std::vector<uint16_t> grad_b = std::vector<uint16_t>(3, 0x3c00);
  std::vector<float> master = std::vector<float>(103);
  std::vector<float> exp_avg = std::vector<float>(103);
  std::vector<std::vector<float>> exp_avg_sq = {std::vector<float>(100), std::vector<float>(3)};
  Step step{
      make_recipe("adamw", {.grad = DType::f16, .master = true}),
      Layout().add({.name = "a", .elements = 100}).add({.name = "b", .elements = 3, .group = 1}),
      Device::interpreter()};

  void bind() {
    step.bind("weight", {weight_a, weight_b});
    step.bind("master", {{master.data(), 100}, {&master[100], 3}});
    std::span<float> all(exp_avg);
    step.bind("exp_avg", std::vector<std::span<float>>{all.first(100), all.last(3)});
    step.bind("exp_avg_sq", exp_avg_sq);
  }
};

template <class... T>
concept SetsArgument = requires(Args args, T... values) { args.set("lr", values...); };
template <class T>
concept IsArray = std::convertible_to<T, Array>;
template <class T>
concept IsStream = std::convertible_to<T, Stream>;

}  // namespace

TEST_CASE("what could be mistaken does not compile") {
  static_assert(SetsArgument<double> && SetsArgument<Group, double> &&
                SetsArgument<Tensor, double>);
  static_assert(!SetsArgument<double, int> && !SetsArgument<int, double>);
  static_assert(IsArray<std::vector<float>&> && IsArray<std::span<float>>);
  static_assert(!IsArray<std::vector<float>>, "it would dangle");
  static_assert(!IsArray<const std::vector<float>&> && !IsArray<std::span<const float>>);
  static_assert(!IsArray<std::vector<std::string>&> && !IsArray<float*>);
  static_assert(!IsStream<std::nullptr_t> && !IsStream<void*>);
  static_assert(std::is_constructible_v<Arrays, std::vector<std::vector<float>>&>);
  static_assert(!std::is_constructible_v<Arrays, std::vector<std::vector<float>>>);
}

TEST_CASE("vectors, spans, pointers with counts and a type of one's own are arrays") {
  Mixed m;
  m.bind();
  m.step.prepare();
  m.step.init_state();
  CHECK(m.master[102] == 1.0F);
  Args args = m.step.make_args();
  args.set("lr", 0.25);
  args.set("weight_decay", Group{0}, 0.5);
  args.set("weight_decay", Group{1}, 0.0);
  std::vector<void*> gradients = m.step.gradients({m.grad_a, m.grad_b});
  m.step.run(gradients, args);
  CHECK(m.master[0] == doctest::Approx(0.625));  // 1 - 0.25 * 0.5, then the update's 0.25
  CHECK(m.master[102] == doctest::Approx(0.75));
  m.step.run({nullptr, gradients[1]}, args);
  CHECK(m.master[0] == doctest::Approx(0.625));
  CHECK(m.step.gradients({{}, m.grad_b}) == std::vector<void*>{nullptr, m.grad_b.data()});
}

TEST_CASE("arrays of wrong types and lengths are refused, and nothing is bound") {
  Mixed m;
  m.bind();
  std::vector<float> floats(100), short_one(99);
  std::vector<uint16_t> halves(100), bias(3);
  auto refused = [&](auto&& f) { return message_of(ErrorKind::bind, f); };
  std::string told = refused([&] { m.step.bind("master", {halves, bias}); });
  CHECK(has(told, "@master of tensor 0 'a': expected 100 elements of f32"));
  CHECK(has(told, "got 100 of f16 or bf16: pass an array of this type and length"));
  CHECK(has(refused([&] { m.step.bind("weight", {floats, bias}); }),
            "expected 100 elements of f16; got 100 of f32"));
  CHECK(has(refused([&] { m.step.bind("exp_avg", {short_one, floats}); }),
            "expected 100 elements of f32; got 99"));
  CHECK(
      has(refused([&] { m.step.bind("exp_avg", {floats, floats}); }), "tensor 1 'b': expected 3"));
  CHECK(has(refused([&] { m.step.bind("exp_avg", {floats}); }),
            "bound to 1 array; the layout has 2 tensors"));
  CHECK(has(refused([&] { m.step.bind("exp_avg", {floats, {}}); }), "is null"));
  CHECK(has(refused([&] { m.step.bind("grad", {halves, bias}); }), "given to run(), not bound"));
  CHECK(has(refused([&] { m.step.gradients({floats, bias}); }), "expected 100 elements of f16"));
  CHECK(has(refused([&] { m.step.gradients({halves}); }), "expected 2 arrays"));
  m.step.prepare();
  m.step.init_state();
  m.step.run(m.step.gradients({m.grad_a, m.grad_b}), m.step.make_args());
  CHECK(m.exp_avg[0] != 0);
  CHECK(floats == std::vector<float>(100));
}

TEST_CASE("a step tells its buffers, and the type and length of each array") {
  RecipeOptions options{.moments = "int8", .moments_below = 1000};
  Step step(make_recipe("adamw", options), Layout().add({.elements = 5000}).add({.elements = 10}),
            Device::interpreter());
  CHECK(step.buffers().front() == "grad");
  auto is = [&](std::string_view buffer, size_t tensor, DType dtype, uint64_t elements) {
    ArrayShape shape = step.array(buffer, Tensor{tensor});
    return shape.dtype == dtype && shape.elements == elements;
  };
  CHECK(is("weight", 0, DType::f32, 5000));
  CHECK(is("exp_avg.int8.code", 0, DType::i8, 5000));
  CHECK(is("exp_avg", 0, DType::f32, 0));  // below 1,000 elements only
  CHECK(is("exp_avg", 1, DType::f32, 10));
  CHECK(has(message_of(ErrorKind::bind, [&] { step.array("weights", {}); }), "has no buffer"));
  CHECK(has(message_of(ErrorKind::bind, [&] { step.array("weight", Tensor{2}); }), "layout has 2"));
}

TEST_CASE("a group for an argument per tensor, or a tensor for one per group, is refused") {
  Mixed m;
  Step per_tensor(make_recipe("adamw", {.per_tensor = {"lr"}}), Layout().add({.elements = 1}),
                  Device::interpreter());
  Args args = m.step.make_args(), scaled = per_tensor.make_args();
  CHECK(has(message_of(ErrorKind::usage, [&] { args.set("lr", Tensor{1}, 0.1); }),
            "argument 'lr' has a value per group: expected Group{1}"));
  CHECK(has(message_of(ErrorKind::usage, [&] { scaled.set("lr_scale", Group{0}, 0.1); }),
            "argument 'lr_scale' has a value per tensor: expected Tensor{0}"));
  args.set("lr", Group{1}, 0.5);
  CHECK(args.get(m.step.arg("lr"), Group{0}) == 0.001);
  CHECK(args.get(m.step.arg("lr"), Group{1}) == 0.5);
}

TEST_CASE("steps keep the states of their scaler") {
  std::vector<float> weight(4, 1.0F), exp_avg(4), exp_avg_sq(4), grad(4, 1e30F);
  auto scaler = std::make_unique<LossScaler>(LossScaler::Options{.init_scale = 8});
  StepOptions options{.scaler = scaler.get()};
  Step step(make_recipe("adamw", {.loss_scale = LossScale::dynamic}), Layout().add({.elements = 4}),
            Device::interpreter(), options);
  scaler.reset();
  step.prepare();
  step.bind("weight", {weight});
  step.bind("exp_avg", {exp_avg});
  step.bind("exp_avg_sq", {exp_avg_sq});
  step.init_state();
  step.run(step.gradients({grad}), step.make_args());
  grad[0] = grad[1] * grad[1];  // inf
  step.run(step.gradients({grad}), step.make_args());
  CHECK(step.stats()->at("loss_scale") == 8);
  CHECK(step.stats()->at("next_loss_scale") == 4);
}

TEST_CASE("the headers' version is the library's") {
  CHECK(version() == STEPFUSE_VERSION_STRING);
  CHECK(stepfuse_version_matches(std::string(version()).c_str()) == 1);
}
