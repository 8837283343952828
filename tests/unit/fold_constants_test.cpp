// Pass fold constants: ops of constants are evaluated by the interpreter's functions. Knows ir and
// the passes.
#include <cfenv>

#include "compiler/passes/passes.hpp"
#include "tests/unit/pass_testing.hpp"

using namespace stepfuse;
using stepfuse::testing::check_pass;
using stepfuse::testing::check_unchanged;

TEST_CASE("fold constants: arithmetic, comparison, casts and select") {
  check_pass(fold_constants,
             R"(  buffer @w : f16 out
  report @r : f32
  report @n : i32
  report @d : f64
  %a = const 2 : f32
  %b = const 0.1 : f32
  %c = mul %a, %b : f32
  %less = lt %a, %b : bool
  %s = select %less, %a, %c : f32
  write @r, %s
  %h = cast %s : f16
  store @w, %h
  %m = const 2147483647 : i32
  %one = const 1 : i32
  %wrapped = add %m, %one : i32
  write @n, %wrapped
  %d = const 3 : f64
  %p = powi %d, %one : f64
  write @d, %p
)",
             R"(  buffer @w : f16 out
  report @r : f32
  report @n : i32
  report @d : f64
  %a = const 2 : f32
  %b = const 0.1 : f32
  %c = const 0.2 : f32
  %less = const false : bool
  %s = const 0.2 : f32
  write @r, %s
  %h = const 0.2 : f16
  store @w, %h
  %m = const 2147483647 : i32
  %one = const 1 : i32
  %wrapped = const -2147483648 : i32
  write @n, %wrapped
  %d = const 3 : f64
  %p = const 3 : f64
  write @d, %p
)");
}

TEST_CASE("fold constants: the defined edges hold, and a NaN is the canonical one") {
  check_pass(fold_constants,
             R"(  report @a : f32
  report @b : i32
  report @c : f32
  %zero = const 0 : f32
  %nzero = const -0 : f32
  %min = min %zero, %nzero : f32
  write @a, %min
  %n = const 7 : i32
  %z = const 0 : i32
  %q = div %n, %z : i32
  write @b, %q
  %nan = div %zero, %zero : f32
  write @c, %nan
)",
             R"(  report @a : f32
  report @b : i32
  report @c : f32
  %zero = const 0 : f32
  %nzero = const -0 : f32
  %min = const -0 : f32
  write @a, %min
  %n = const 7 : i32
  %z = const 0 : i32
  %q = const 0 : i32
  write @b, %q
  %nan = const nan : f32
  write @c, %nan
)");
}

TEST_CASE("fold constants: casts to a bound type and non-constants stay") {
  check_unchanged(fold_constants, R"(  buffer @w : f16|bf16 out
  report @r : f32
  arg %x : f32
  %c = const 1 : f32
  %h = cast %c : @w
  store @w, %h
  %s = add %x, %c : f32
  write @r, %s
)");
}

TEST_CASE("fold constants: the caller's rounding mode changes nothing") {
  // To nearest a third is rounded away from zero, in f32; each other mode turns one of them around.
  Program p = testing::parse_body(
      "  report @r : f32\n  report @s : f32\n  %a = const 1 : f32\n  %b = const 3 : f32\n"
      "  %c = const -3 : f32\n  %q = div %a, %b : f32\n  %t = div %a, %c : f32\n"
      "  write @r, %q\n  write @s, %t\n");
  Program nearest = fold_constants(p);
  REQUIRE(nearest != p);
  for (int wanted : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(wanted);
    Program folded = fold_constants(p);
    int mode = std::fegetround();
    std::fesetround(FE_TONEAREST);
    CHECK(mode == wanted);
    CHECK(folded == nearest);
  }
}
