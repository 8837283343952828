// Every op in every type and granularity, CPU against interpreter, on every level that this machine runs.
#include <cmath>
#include <random>

#include <doctest/doctest.h>

#include <stepfuse/ops.hpp>

#include "ir/program/builder.hpp"
#include "tests/support/kernel_runner.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// Whether the op's operands are all of type `t`.
bool takes(const OpInfo& op, DType t) {
  switch (op.rule) {
    case TypeRule::number:
    case TypeRule::compare:
      return true;
    case TypeRule::real:
    case TypeRule::classify:
      return is_float(t);
    case TypeRule::bits:
    case TypeRule::integer:
      return is_integer(t);
    default:
      return false;
  }
}

// All elementwise ops on a, b, c of one number type, with `bit` a bool.
// `uniform`: values that are not per element.
std::vector<Value> all_results(Value a, Value b, Value c, Value bit, bool uniform, Value exponent) {
  DType t = a.type().dtype;
  std::vector<Value> results;
  for (const OpInfo& op : all_ops()) {
    if (!is_elementwise(op.op) || !takes(op, t)) continue;
    results.push_back(op.arity == 1   ? a.builder->apply(op.op, {a})
                      : op.arity == 2 ? a.builder->apply(op.op, {a, b})
                                      : a.builder->apply(op.op, {a, b, c}));
  }
  if (uniform && is_float(t)) {
    results.push_back(stepfuse::powi(a, exponent));
    results.push_back(a.builder->apply(Op::pow, {a, b}));
  }
  bool wide = t == DType::f64 || t == DType::i64;
  DType bits = is_float(t) ? (wide ? DType::i64 : DType::i32) : wide ? DType::f64 : DType::f32;
  results.push_back(a.builder->bitcast(a, bits));
  results.push_back(a.builder->apply(Op::bit_xor, {a < b, bit}));
  results.push_back(a.builder->select(bit, a, b));
  Value less = a < b;
  results.push_back(a.builder->select(less & bit, a, c));
  results.push_back((!less) | bit);
  return results;
}

// Elements of f32, i32 and bool, and casts among them and the 16-bit types; each result goes to a
// buffer of its own.
Program element_program() {
  Builder b("elements");
  auto in = [&](const char* name, DType t) { return b.load(b.buffer(name, t, Access::in)); };
  Value x = in("x", DType::f32);
  Value y = in("y", DType::f32);
  Value z = in("z", DType::f32);
  Value i = in("i", DType::i32);
  Value j = in("j", DType::i32);
  Value k = in("k", DType::i32);
  Value low = in("half", DType::f16);
  Value thin = in("brain", DType::bf16);
  Value half = b.cast(low, DType::f32);
  Value brain = b.cast(thin, DType::f32);
  Value bit = b.cast(b.tensor_index(), DType::f32) < y;
  std::vector<Value> results = all_results(x, y, z, bit, false, {});
  for (Value v : all_results(i, j, k, bit, false, {})) results.push_back(v);
  for (Value v : {b.cast(x, DType::i32), b.cast(i, DType::f32), b.cast(bit, DType::i32),
                  b.cast(bit, DType::f32), half, brain, b.bitcast(low, DType::i32),
                  b.bitcast(thin, DType::i32), b.element_index(), b.select(b.present(), i, j)}) {
    results.push_back(v);
  }
  int number = 0;
  auto store = [&](Value v, DType t) {
    b.store(b.buffer("out" + std::to_string(number++), t, Access::inout), v);
  };
  for (Value v : results) {
    bool is_bool = v.type().dtype == DType::boolean;
    Value out = is_bool ? b.cast(v, DType::i32) : v;
    store(out, out.type().dtype);
  }
  store(b.cast(x, DType::f16), DType::f16);
  store(b.cast(x, DType::bf16), DType::bf16);
  store(b.bitcast(i, DType::f16), DType::f16);
  store(b.bitcast(j, DType::bf16), DType::bf16);
  return b.finish();
}

// The same over states of coarser granularity, each result into a state of its own.
Program uniform_program(Granularity granularity) {
  Builder b("uniform");
  struct Source {
    StateRef a, b, c;
    DType t;
  };
  std::vector<Source> sources;
  for (DType t : {DType::f32, DType::f64, DType::i32, DType::i64}) {
    auto state = [&](const char* prefix) {
      return b.state(prefix + std::string(name(t)), {t, granularity});
    };
    sources.push_back({state("a"), state("b"), state("c"), t});
  }
  StateRef bit_state = b.state("bit", {DType::boolean, granularity});
  Value bit = b.read(bit_state);
  std::vector<Value> results;
  std::vector<Value> firsts;
  for (const Source& s : sources) {
    Value x = b.read(s.a);
    firsts.push_back(x);
    Value exponent = b.read(sources[s.t == DType::f32 ? 2 : 3].b);
    for (Value v : all_results(x, b.read(s.b), b.read(s.c), bit, true, exponent))
      results.push_back(v);
  }
  for (Value v : firsts) {
    for (DType to : {DType::f32, DType::f64, DType::i32, DType::i64}) {
      if (to != v.type().dtype) results.push_back(b.cast(v, to));
    }
  }
  for (DType to : {DType::f32, DType::f64, DType::i32, DType::i64}) {
    results.push_back(b.cast(bit, to));
  }
  for (DType to : {DType::f16, DType::bf16}) {
    results.push_back(b.cast(b.cast(firsts[0], to), DType::f32));
  }
  int number = 0;
  for (Value v : results) {
    b.write(b.state("out" + std::to_string(number++), {v.type().dtype, granularity}), v);
  }
  return b.finish();
}

}  // namespace

TEST_CASE("every op on elements") {
  Program p = element_program();
  TestLayout layout;
  layout.add({.size = 4097}, signature_of(p));
  layout.add({.size = 333, .shift = 5}, signature_of(p));
  for (const std::string& level : runnable_cpu_levels()) {
    CAPTURE(level);
    for (uint64_t seed : {1, 2, 3}) {
      TestData input(p, layout, seed, seed > 1 ? Inputs::special : Inputs::normal);
      CHECK(compare_with_interpreter(p, input, {.level = level}) == "");
    }
  }
}

TEST_CASE("every op on values of the step, of groups and of tensors") {
  for (Granularity granularity : {per::step, per::group, per::tensor}) {
    Program p = uniform_program(granularity);
    TestLayout layout{.group_count = granularity == per::group ? 400 : 1};
    for (int t = 0; t < (granularity == per::tensor ? 400 : 1); ++t) {
      layout.add({.present = t % 7 != 3}, {});
    }
    for (const std::string& level : runnable_cpu_levels()) {
      CAPTURE(level);
      CAPTURE(info(granularity).name);
      for (uint64_t seed = 1; seed <= (granularity == per::step ? 16U : 4U); ++seed) {
        TestData input(p, layout, seed, seed > 1 ? Inputs::special : Inputs::normal);
        CHECK(compare_with_interpreter(p, input, {.level = level}) == "");
      }
    }
  }
}

TEST_CASE(
    "uniform values in element code: bound casts, predicates, broadcasts of every granularity") {
  Builder b("mixed");
  Value lr = b.arg("lr", {DType::f32, per::group});
  Value flag = b.arg("flag", {DType::boolean, per::group});
  Value gain = b.arg("gain", {DType::f32, per::step});
  BufferRef g = b.buffer("g", DTypeSet(DType::f16) | DType::bf16 | DType::f32, Access::inout);
  BufferRef w = b.buffer("w", DType::f32, Access::inout);
  BufferRef copy = b.buffer("copy", DTypeSet(DType::f16) | DType::bf16, Access::out);
  BufferRef masked = b.buffer("masked", DType::f16, Access::out);
  StateRef bias = b.state("bias", {DType::f32, per::tensor});
  Value old = b.cast(b.load(g), DType::f32);
  Value offset = b.read(bias);
  Value value = old * lr + offset * gain;
  b.store(w, value, flag);
  b.store(g, b.cast_to_buffer(offset * lr, g), flag);
  b.store(copy, b.cast_to_buffer(value, copy), !flag);
  b.store(masked, b.cast(value, DType::f16), isfinite(old) & (old < gain));
  b.write(bias, offset * gain, flag);
  Program p = b.finish();
  TestLayout layout{.group_count = 3};
  for (DType grad : {DType::f16, DType::bf16, DType::f32}) {
    for (DType low : {DType::f16, DType::bf16}) {
      for (int group : {0, 1, 2}) {
        layout.add({.size = 1000 + 7 * static_cast<uint64_t>(group),
                    .group = group,
                    .present = group != 1 || low != grad,
                    .shift = static_cast<size_t>(group)},
                   {grad, DType::f32, low, DType::f16});
      }
    }
  }
  for (const std::string& level : runnable_cpu_levels()) {
    CAPTURE(level);
    for (uint64_t seed : {1, 2}) {
      TestData input(p, layout, seed, seed > 1 ? Inputs::special : Inputs::normal);
      CHECK(compare_with_interpreter(p, input, {.level = level}, 2) == "");
      CHECK(compare_with_interpreter(p, input, {.level = level, .optimize = true}) == "");
    }
  }
}

TEST_CASE(
    "fma rounds once, also without the instruction: cancellation, ties, subnormals, overflow") {
  Builder b("fma");
  struct Kind {
    DType t;
    StateRef a, b, c, out;
  };
  std::vector<Kind> kinds;
  for (DType t : {DType::f32, DType::f64}) {
    std::string suffix(name(t));
    auto state = [&](const char* prefix) { return b.state(prefix + suffix, {t, per::group}); };
    Kind k{t, state("a"), state("b"), state("c"), state("out")};
    b.write(k.out, fma(b.read(k.a), b.read(k.b), b.read(k.c)));
    kinds.push_back(k);
  }
  Program p = b.finish();
  constexpr int32_t kCases = 20000;
  TestLayout layout{.group_count = kCases};
  layout.add({}, {});
  TestData input(p, layout, 1, Inputs::normal);
  std::mt19937_64 random(5);
  auto value = [&](int exponents) {
    double mantissa = 1.0 + static_cast<double>(random() >> (random() % 64)) * 0x1p-64;
    double v = std::ldexp(
        mantissa, static_cast<int>(random() % static_cast<uint64_t>(exponents)) - exponents / 2);
    return random() % 2 == 0 ? v : -v;
  };
  for (size_t i = 0; i < size_t{kCases}; ++i) {
    for (const Kind& k : kinds) {
      bool is_f64 = k.t == DType::f64;
      // Narrow ranges make cancellation likely, wide ones overflow and underflow.
      int range = i % 3 == 0 ? 4 : i % 3 == 1 ? (is_f64 ? 120 : 50) : (is_f64 ? 2140 : 290);
      double x = value(range);
      double y = value(range);
      double z = i % 5 == 0 ? -x * y : value(i % 3 == 2 ? range : 2 * range);
      if (i % 7 == 0) z = -x * y * (1 + std::ldexp(1.0, -static_cast<int>(random() % 54)));
      auto set = [&](StateRef s, double v) {
        input.step().states[static_cast<size_t>(s.slot)][i] =
            is_f64 ? Bits::of(v) : Bits::of(static_cast<float>(v));
      };
      set(k.a, x);
      set(k.b, y);
      set(k.c, z);
    }
  }
  for (const std::string& level : runnable_cpu_levels()) {
    CAPTURE(level);
    CHECK(compare_with_interpreter(p, input, {.level = level}) == "");
  }
}
