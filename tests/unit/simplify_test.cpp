// Pass simplify: every identity with its text, every near-identity unchanged, and all of them on
// hard values. Knows ir and the passes.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compiler/passes/passes.hpp"
#include "ir/interpreter.hpp"
#include "ir/semantics.hpp"
#include "tests/unit/pass_testing.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace stepfuse;
using stepfuse::testing::check_pass;
using stepfuse::testing::check_unchanged;

namespace {

constexpr const char* kHead = R"(  buffer @x : f32 in
  buffer @y : f32 in
  buffer @f : f32 out
  state @p : bool
  state @n : i32
  state @s : f32
  arg %a : f32
  arg %i : i32
  arg %q : bool
  %x = load @x : [f32]
  %y = load @y : [f32]
  %c = lt %x, %y : [bool]
  %zero = const 0 : f32
  %nzero = const -0 : f32
  %one = const 1 : f32
  %none = const -1 : f32
  %four = const 4 : f32
  %three = const 3 : f32
  %inf = const inf : f32
  %ninf = const -inf : f32
  %i0 = const 0 : i32
  %i1 = const 1 : i32
  %i2 = const 2 : i32
  %in1 = const -1 : i32
  %t = const true : bool
  %u = const false : bool
  %nx = neg %x : [f32]
  %ny = neg %y : [f32]
  %ax = abs %x : [f32]
  %nc = not %c : [bool]
)";

// `before` and `after` are what follows the head, which stays as it is.
void check_rule(const std::string& before, const std::string& after) {
  check_pass(simplify, kHead + before, kHead + after);
}
// One statement `%r = …` whose value is stored or written; `value` is what is used instead.
void to_value(const std::string& statement, const std::string& value) {
  CAPTURE(statement);
  check_rule("  %r = " + statement + " : [f32]\n  store @f, %r\n", "  store @f, %" + value + "\n");
}
void to_inst(const std::string& statement, const std::string& other) {
  CAPTURE(statement);
  check_rule("  %r = " + statement + " : [f32]\n  store @f, %r\n",
             "  %r = " + other + " : [f32]\n  store @f, %r\n");
}
void stays(const std::string& statement) { to_inst(statement, statement); }

}  // namespace

TEST_CASE("simplify: neutral operands of floats") {
  for (const char* s : {"mul %x, %one", "mul %one, %x", "div %x, %one", "sub %x, %zero",
                        "add %x, %nzero", "add %nzero, %x", "min %x, %inf", "min %inf, %x",
                        "max %x, %ninf", "min %x, %x", "max %x, %x"}) {
    to_value(s, "x");
  }
  to_inst("mul %x, %none", "neg %x");
  to_inst("div %x, %none", "neg %x");
  to_inst("sub %nzero, %x", "neg %x");
  to_inst("div %one, %x", "rcp %x");
  to_inst("fma %x, %one, %y", "add %x, %y");
  to_inst("fma %one, %x, %y", "add %x, %y");
  to_inst("fma %x, %y, %nzero", "mul %x, %y");
}

TEST_CASE("simplify: what -0, NaN or rounding forbids stays") {
  for (const char* s :
       {"add %x, %zero", "sub %x, %nzero", "sub %zero, %x", "mul %x, %zero", "sub %x, %x",
        "div %x, %x", "div %x, %three", "min %x, %ninf", "max %x, %inf", "fma %x, %y, %zero",
        "abs %y", "mul %nx, %y", "div %x, %zero", "div %x, %inf"}) {
    stays(s);
  }
}

TEST_CASE("simplify: signs") {
  to_value("neg %nx", "x");
  to_value("abs %ax", "ax");
  to_inst("abs %nx", "abs %x");
  to_inst("add %x, %ny", "sub %x, %y");
  to_inst("add %nx, %y", "sub %y, %x");
  to_inst("sub %x, %ny", "add %x, %y");
  to_inst("mul %nx, %ny", "mul %x, %y");
  check_rule("  %r = isfinite %nx : [bool]\n  %any = reduce_any %r : bool\n  write @p, %any\n",
             "  %r = isfinite %x : [bool]\n  %any = reduce_any %r : bool\n  write @p, %any\n");
}

TEST_CASE("simplify: dividing by a power of two multiplies by its reciprocal") {
  check_rule("  %r = div %x, %four : [f32]\n  store @f, %r\n",
             "  %r.c0 = const 0.25 : f32\n  %r = mul %x, %r.c0 : [f32]\n  store @f, %r\n");
  // 2^-140 has no finite reciprocal, 2^127 has a subnormal one.
  check_unchanged(simplify, std::string(kHead) +
                                "  %tiny = const 7.17e-43 : f32\n"
                                "  %r = div %x, %tiny : [f32]\n  store @f, %r\n");
}

TEST_CASE("simplify: select, and, or, not") {
  to_value("select %c, %x, %x", "x");
  to_value("select %t, %x, %y", "x");
  to_value("select %u, %x, %y", "y");
  to_inst("select %nc, %x, %y", "select %c, %y, %x");
  auto condition = [](const std::string& s, const std::string& value) {
    CAPTURE(s);
    check_rule("  %r = " + s + " : [bool]\n  store @f, %x if %r\n",
               "  store @f, %x if %" + value + "\n");
  };
  condition("and %c, %t", "c");
  condition("or %u, %c", "c");
  condition("and %c, %c", "c");
  condition("not %nc", "c");
  condition("select %c, %t, %u", "c");
  check_rule("  %r = select %c, %u, %t : [bool]\n  store @f, %x if %r\n",
             "  %r = not %c : [bool]\n  store @f, %x if %r\n");
  check_rule("  %r = and %q, %u : bool\n  write @p, %r\n",
             "  %r = const false : bool\n  write @p, %r\n");
}

TEST_CASE("simplify: a value of a finer domain is not replaced by one of a coarser") {
  // The sum over the elements of %a is not %a.
  check_unchanged(simplify, std::string(kHead) +
                                "  %r = select %c, %a, %a : [f32]\n"
                                "  %sum = reduce_add %r : f32\n  write @s, %sum\n");
  check_unchanged(simplify, std::string(kHead) +
                                "  %r = or %c, %t : [bool]\n  %any = reduce_any %r : bool\n"
                                "  write @p, %any\n");
}

TEST_CASE("simplify: integers, which have no -0 and no NaN") {
  auto integer = [](const std::string& s, const std::string& value) {
    CAPTURE(s);
    check_rule("  %r = " + s + " : i32\n  write @n, %r\n", "  write @n, %" + value + "\n");
  };
  auto other = [](const std::string& s, const std::string& inst) {
    CAPTURE(s);
    check_rule("  %r = " + s + " : i32\n  write @n, %r\n",
               "  %r = " + inst + " : i32\n  write @n, %r\n");
  };
  integer("add %i, %i0", "i");
  integer("sub %i, %i0", "i");
  integer("mul %i1, %i", "i");
  integer("div %i, %i1", "i");
  integer("min %i, %i", "i");
  other("sub %i0, %i", "neg %i");
  other("div %i, %in1", "neg %i");
  other("mul %i, %i0", "const 0");
  other("sub %i, %i", "const 0");
  other("div %i, %i0", "div %i, %i0");
  other("div %i1, %i", "div %i1, %i");
  check_rule("  %r = eq %i, %i : bool\n  write @p, %r\n",
             "  %r = const true : bool\n  write @p, %r\n");
  check_rule("  %r = lt %a, %a : bool\n  write @p, %r\n",
             "  %r = const false : bool\n  write @p, %r\n");
  check_unchanged(simplify, std::string(kHead) + "  %r = eq %a, %a : bool\n  write @p, %r\n");
}

TEST_CASE("simplify: powi with an exponent whose loop is one instruction") {
  auto power = [](const std::string& exponent, const std::string& inst) {
    check_rule("  %r = powi %a, %" + exponent + " : f32\n  write @s, %r\n",
               "  %r = " + inst + " : f32\n  write @s, %r\n");
  };
  check_rule("  %r = powi %a, %i1 : f32\n  write @s, %r\n", "  write @s, %a\n");
  power("i2", "mul %a, %a");
  power("in1", "rcp %a");
  power("i0", "powi %a, %i0");
  power("i", "powi %a, %i");
}

TEST_CASE("simplify: constant predicates; the last effect stays") {
  check_rule("  store @f, %x if %t\n  write @s, %a if %u\n", "  store @f, %x\n");
  check_rule("  store @f, %x if %u\n  write @s, %a if %u\n", "  write @s, %a if %u\n");
}

TEST_CASE("simplify: a report keeps its write") {
  check_unchanged(simplify, R"(  state @s : f32
  report @r : f32
  arg %a : f32
  %u = const false : bool
  write @r, %a if %u
  write @s, %a
)");
}

TEST_CASE("simplify: a result is simplified further") {
  check_rule("  %h = mul %none, %nx : [f32]\n  %r = sub %h, %zero : [f32]\n  store @f, %r\n",
             "  store @f, %x\n");
}

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
