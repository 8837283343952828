// Pass simplify on hard values; tests/filetests/passes/simplify.sf has each rule as text. Knows ir and
// the passes.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compiler/passes/passes.hpp"
#include "ir/semantics/interpreter.hpp"
#include "ir/semantics/semantics.hpp"
#include "tests/unit/pass_testing.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace stepfuse;

// Every shape that a rule could match, with every constant that one could mean, on hard values.
#if defined(__x86_64__)
TEST_CASE("simplify: a caller that flushes subnormals to zero gets the same program") {
  // The reciprocal of 2^127 is subnormal.
  Program p = stepfuse::testing::parse_body(
      "  report @r : f32\n  arg %x : f32\n  %c = const 1.7014118346046923e38 : f32\n  %r = div %x, "
      "%c : f32\n"
      "  write @r, %r\n");
  Program plain = simplify(p);
  REQUIRE(plain != p);
  constexpr unsigned kFlush = 0x8040 | 0x1f80;
  unsigned before = _mm_getcsr();
  _mm_setcsr(kFlush);
  Program flushed = simplify(p);
  unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  CHECK((after & ~0x3fU) == kFlush);
  CHECK(flushed == plain);
}
#endif

TEST_CASE("simplify: what replaces an instruction gives its bits") {
  const std::vector<double> values = {
      0.0,       -0.0,         1.0,           -1.0,   2.0,
      3.0,       -2.5,         0.1,           1e-45,  -1e-40,
      1e-310,    3e38,         -3e38,         1e300,  HUGE_VAL,
      -HUGE_VAL, 2147483647.0, -2147483648.0, 9.3e18, std::numeric_limits<double>::quiet_NaN()};
  const std::vector<std::string> shapes = {
      "add %x, %c",     "add %c, %x",     "sub %x, %c", "sub %c, %x", "mul %x, %c",
      "mul %c, %x",     "div %x, %c",     "div %c, %x", "min %x, %c", "max %c, %x",
      "add %x, %x",     "sub %x, %x",     "mul %x, %x", "div %x, %x", "min %x, %x",
      "max %x, %x",     "add %x, %n",     "add %n, %c", "sub %c, %n", "sub %n, %n",
      "mul %n, %n",     "neg %n",         "abs %n",     "abs %a",     "fma %x, %c, %n",
      "fma %c, %x, %n", "fma %x, %n, %c", "powi %x, %e"};
  int changed = 0;
  for (DType t : {DType::f32, DType::f64, DType::i32, DType::i64}) {
    for (double constant : {0.0, -0.0, 1.0, -1.0, 2.0, 0.25, 3.0, HUGE_VAL, -HUGE_VAL}) {
      if (is_integer(t) && (constant != std::trunc(constant) || std::isinf(constant))) continue;
      for (const std::string& shape : shapes) {
        if (is_integer(t) && (shape[0] == 'f' || shape[0] == 'p')) continue;
        Bits c = sem::cast(Bits::of(constant), DType::f64, t);
        std::string type(name(t));
        int exponent = std::isfinite(constant) ? static_cast<int>(constant) : 5;
        Program p = stepfuse::testing::parse_body(
            "  report @r : " + type + "\n  arg %x : " + type + "\n  %c = const " +
            literal_text(c, t) + " : " + type + "\n  %e = const " + std::to_string(exponent) +
            " : i32\n  %n = neg %x : " + type + "\n  %a = abs %x : " + type + "\n  %r = " + shape +
            " : " + type + "\n  write @r, %r\n");
        Program q = simplify(p);
        if (q == p) continue;
        ++changed;
        for (double v : values) {
          StepData before;
          before.args = {{sem::cast(Bits::of(v), DType::f64, t)}};
          before.states = {{Bits{}}};
          StepData after = before;
          interpret(p, before);
          interpret(q, after);
          CAPTURE(print(p));
          CAPTURE(v);
          CHECK(canonical_nan(before.states[0][0], t) == canonical_nan(after.states[0][0], t));
        }
      }
    }
  }
  CHECK(changed > 150);
}
