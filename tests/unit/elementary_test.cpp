// exp, log, tanh and the remainder of formulas: their errors against long double, special cases, and
// which values % takes.
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/printer.hpp>
#include <stepfuse/recipes.hpp>

#include "ir/semantics/interpreter.hpp"
#include "tests/support/last_place.hpp"
#include "tests/support/messages.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

Program step_of(const std::string& body) {
  return make_recipe(parse_optimizer("optimizer o \"\" {\n" + body + "\n}", "o.opt"));
}

// `value` of each x, computed as elements in f32.
std::vector<float> of_elements(const std::string& value, std::vector<float> x) {
  Program p = step_of("w = " + value);
  std::vector<float> result(x.size());
  StepData data;
  data.tensors.push_back({.size = x.size(), .data = {x.data(), result.data()}});
  data.tensors.back().dtypes = {DType::f32, DType::f32};
  for (size_t i = 0; i < p.states.size(); ++i) data.states.emplace_back(1);
  interpret(p, data);
  return result;
}

// `value` of each x, computed as numbers of tensors in f64.
std::vector<double> of_tensors(const std::string& value, const std::vector<double>& x) {
  Program p = step_of("state x : tensor = 0\nstate y : tensor = 0\ny = y * 0 + (" + value +
                      ")\nx = x + 0\nw = w - g");
  StepData data;
  std::vector<float> arrays(2 * x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    data.tensors.push_back({.size = 1, .data = {&arrays[2 * i], &arrays[2 * i + 1]}});
    data.tensors.back().dtypes = {DType::f32, DType::f32};
  }
  for (size_t i = 0; i < p.states.size(); ++i) data.states.emplace_back(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    data.states[static_cast<size_t>(p.find_state("x"))][i] = Bits::of(x[i]);
  }
  interpret(p, data);
  std::vector<double> result;
  for (Bits b : data.states[static_cast<size_t>(p.find_state("y"))]) result.push_back(b.f64());
  return result;
}

template <class T>
double worst(const std::vector<T>& x, const std::vector<T>& got, Wide (*want)(Wide)) {
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    most = std::max(most, ulps_off(got[i], want(static_cast<Wide>(x[i]))));
  }
  return most;
}

// Every exponent and both signs; many around 0 and 1, and where exp overflows and vanishes.
template <class T>
std::vector<T> samples(int count) {
  std::mt19937_64 bits(29);
  auto unit = [&] { return static_cast<double>(bits() >> 11) * 0x1p-53; };
  double far = sizeof(T) == 4 ? 105 : 750;
  std::vector<T> x;
  for (int i = 0; i < count; ++i) {
    uint64_t raw = bits();
    if (i % 4 == 0) x.push_back(static_cast<T>((2 * unit() - 1) * far));
    if (i % 4 == 1) x.push_back(static_cast<T>((2 * unit() - 1) * 3));
    if (i % 4 == 2) x.push_back(static_cast<T>(1 + std::ldexp(2 * unit() - 1, -(i % 40))));
    if (i % 4 != 3) continue;
    if constexpr (sizeof(T) == 4) {
      x.push_back(std::bit_cast<float>(static_cast<uint32_t>(raw >> 32)));
    } else {
      x.push_back(std::bit_cast<double>(raw));
    }
  }
  return x;
}

Wide wide_exp(Wide x) { return std::exp(x); }
Wide wide_log(Wide x) { return std::log(x); }
Wide wide_tanh(Wide x) { return std::tanh(x); }

struct Function {
  const char* call;  // of x
  Wide (*wide)(Wide);
  double bound;  // units of the last place
};
constexpr Function kFunctions[] = {
    {"exp(x)", wide_exp, 1.5}, {"log(x)", wide_log, 1.5}, {"tanh(x)", wide_tanh, 2}};

std::string of_g(std::string call) { return call.replace(call.find("(x"), 2, "(g"); }

}  // namespace

TEST_CASE("exp, log and tanh are within their bounds, of elements and of numbers per tensor") {
  std::vector<float> x = samples<float>(800'000);
  std::vector<double> y = samples<double>(60'000);
  for (const Function& f : kFunctions) {
    CAPTURE(f.call);
    double f32 = worst(x, of_elements(of_g(f.call), x), f.wide);
    double f64 = worst(y, of_tensors(f.call, y), f.wide);
    MESSAGE(f.call << ": " << f32 << " units of the last place in f32, " << f64 << " in f64");
    CHECK(f32 < f.bound);
    CHECK(f64 < f.bound);
    CHECK(f32 > 0.5);  // so the comparison sees errors
  }
}

TEST_CASE("the exponential's ends, and special values, are those of C") {
  const float inf = HUGE_VALF;
  std::vector<float> x = {0.0F,      -0.0F,      1.0F,      inf,     -inf,
                          NAN,       88.72283F,  88.72284F, -103.9F, -104.0F,
                          0x1p-149F, -0x1p-149F, -1.0F,     1e30F,   -1e30F};
  for (const Function& f : kFunctions) {
    CAPTURE(f.call);
    std::vector<float> got = of_elements(of_g(f.call), x);
    for (size_t i = 0; i < x.size(); ++i) {
      CAPTURE(x[i]);
      auto want = static_cast<float>(f.wide(static_cast<Wide>(x[i])));
      CHECK(ulps_off(got[i], f.wide(static_cast<Wide>(x[i]))) < f.bound);
      CHECK(std::isinf(got[i]) == std::isinf(want));
      if (want == 0 || std::isinf(want)) CHECK(std::signbit(got[i]) == std::signbit(want));
    }
  }
  CHECK(of_elements("exp(g)", {0})[0] == 1);
  CHECK(of_elements("log(g)", {1})[0] == 0);
  std::vector<double> y = {
      709.782712893384, 709.7827128933841, -745.13, -745.2, HUGE_VAL, -HUGE_VAL, NAN, 0, -0.0};
  for (const Function& f : kFunctions) {
    std::vector<double> got = of_tensors(f.call, y);
    for (size_t i = 0; i < y.size(); ++i) {
      CAPTURE(y[i]);
      CHECK(ulps_off(got[i], f.wide(static_cast<Wide>(y[i]))) < f.bound);
    }
  }
}

TEST_CASE("% has the sign of the right side, and is exact") {
  for (double a : {7.0, -7.0, 6.0, -6.0, 0.0, 5.25, -5.25, 1e15, 9007199254740991.0}) {
    for (double b : {3.0, -3.0, 0.5, 10.0, 7.0, 0.1}) {
      CAPTURE(a);
      CAPTURE(b);
      double want = std::fmod(a, b);
      if (want != 0 && (want < 0) != (b < 0)) want += b;
      std::string divisor = b < 0 ? "(0 - " + std::to_string(-b) + ")" : std::to_string(b);
      if (std::abs(a / b) < 0x1p53) CHECK(of_tensors("x % " + divisor, {a})[0] == want);
      auto fa = static_cast<float>(a);
      auto fb = static_cast<float>(b);
      if (std::abs(fa / fb) >= 0x1p24F) continue;
      float narrow = std::fmod(fa, fb);
      if (narrow != 0 && (narrow < 0) != (fb < 0)) narrow += fb;
      CHECK(of_elements("g % " + divisor, {fa})[0] == narrow);
    }
  }
  CHECK(std::isnan(of_tensors("x % 0", {3})[0]));
  CHECK(std::isnan(of_elements("g % 2", {HUGE_VALF})[0]));
  // Whole numbers stay whole: every tenth step.
  CHECK(has(print(step_of("w = t % 10 == 0 ? w - g : w")), ": <i64>"));
  CHECK(has(print(step_of("hyper every = 10\nw = t % every == 0 ? w - g : w")), "floor"));
}

TEST_CASE("% binds as * and / do, from the left") {
  CHECK(of_tensors("x * 7 % 4 * 2 + 1", {3})[0] == 3);  // ((21 % 4) * 2) + 1
}

TEST_CASE("random() is uniform in [0, 1), and others at each call and each step") {
  constexpr size_t kCount = 20000;
  for (float v : of_elements("random()", std::vector<float>(kCount))) {
    REQUIRE(v >= 0);
    REQUIRE(v < 1);
  }
  Program p = step_of("w = random() + 2 * floor(1024 * random())");
  std::vector<float> x(kCount), result(kCount);
  StepData data;
  data.tensors.push_back({.size = kCount, .data = {x.data(), result.data()}});
  data.tensors.back().dtypes = {DType::f32, DType::f32};
  for (size_t i = 0; i < p.states.size(); ++i) data.states.emplace_back(1);
  std::vector<float> before;
  for (int step = 0; step < 2; ++step) {
    interpret(p, data);
    double first = 0, second = 0, square = 0;
    for (float v : result) {
      double u = std::fmod(v, 2.0);
      REQUIRE(u >= 0);
      REQUIRE(u <= 1.0);  // rounded
      double other = (v - u) / 2048;
      first += u;
      second += other;
      square += (u - 0.5) * (other - 0.5);
    }
    CHECK(std::abs(first / kCount - 0.5) < 0.01);
    CHECK(std::abs(second / kCount - 0.5) < 0.01);
    CHECK(std::abs(square / kCount) < 0.005);  // 1/12 where both calls drew the same
    CHECK(before != result);
    before = result;
  }
}
