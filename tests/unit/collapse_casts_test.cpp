// Pass collapse casts: identities go, exact chains are joined, roundings stay. Knows ir and the
// passes.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "compiler/passes/passes.hpp"
#include "ir/semantics.hpp"
#include "tests/unit/pass_testing.hpp"

using namespace stepfuse;
using stepfuse::testing::check_pass;
using stepfuse::testing::check_unchanged;

TEST_CASE("collapse casts: a cast to its own type is nothing") {
  check_pass(collapse_casts,
             R"(  buffer @g : f32 in
  buffer @w : f32 out
  %g = load @g : [f32]
  %same = cast %g : [f32]
  %n = neg %same : [f32]
  store @w, %n
)",
             R"(  buffer @g : f32 in
  buffer @w : f32 out
  %g = load @g : [f32]
  %n = neg %g : [f32]
  store @w, %n
)");
}

TEST_CASE("collapse casts: there and back through a wider type is nothing") {
  check_pass(collapse_casts,
             R"(  buffer @g : f16|bf16|f32 in
  buffer @h : bf16 inout
  buffer @w : f16|bf16|f32 out
  %b = load @h : [bf16]
  %b32 = cast %b : [f32]
  %b16 = cast %b32 : [bf16]
  store @h, %b16
  %c = load @g : [@g]
  %c32 = cast %c : [f32]
  %same = cast %c32 : [@g]
  %again = cast %same : [f32]
  %out = cast %again : [@w]
  store @w, %out
)",
             R"(  buffer @g : f16|bf16|f32 in
  buffer @h : bf16 inout
  buffer @w : f16|bf16|f32 out
  %b = load @h : [bf16]
  %b32 = cast %b : [f32]
  store @h, %b
  %c = load @g : [@g]
  %c32 = cast %c : [f32]
  %again = cast %c : [f32]
  %out = cast %again : [@w]
  store @w, %out
)");
}

TEST_CASE("collapse casts: an exact first cast is skipped") {
  check_pass(collapse_casts,
             R"(  report @r : f32
  report @n : i64
  arg %k : i32
  %wide = cast %k : i64
  %f = cast %wide : f32
  write @r, %f
  %d = cast %k : f64
  %l = cast %d : i64
  write @n, %l
)",
             R"(  report @r : f32
  report @n : i64
  arg %k : i32
  %wide = cast %k : i64
  %f = cast %k : f32
  write @r, %f
  %d = cast %k : f64
  %l = cast %k : i64
  write @n, %l
)");
}

TEST_CASE("collapse casts: what rounds, wraps or saturates stays") {
  check_unchanged(collapse_casts, R"(  buffer @w : f32 inout
  report @a : f32
  report @b : i32
  report @c : f64
  arg %x : f64
  arg %n : i64
  %w0 = load @w : [f32]
  %half = cast %w0 : [f16]
  %back = cast %half : [f32]
  store @w, %back
  %x32 = cast %x : f32
  %x64 = cast %x32 : f64
  write @c, %x64
  %n32 = cast %n : i32
  %nf = cast %n32 : f32
  write @a, %nf
  %nd = cast %n : f64
  %ni = cast %nd : i32
  write @b, %ni
)");
}

// Whatever pairs the pass joins, the two casts and the one must agree on hard values.
TEST_CASE("collapse casts: a narrow integer is cast from and to i32 only") {
  check_unchanged(collapse_casts, R"(  buffer @g : f32 in
  buffer @w : u8 out
  %g = load @g : [f32]
  %p = lt %g, %g : [bool]
  %i = cast %p : [i32]
  %u = cast %i : [u8]
  store @w, %u
)");
}

TEST_CASE("collapse casts: joined chains give the bits of both casts") {
  const double values[] = {0.0,
                           -0.0,
                           1.0,
                           0.5,
                           -1.5,
                           1e-45,
                           6e-8,
                           65504,
                           65520,
                           3e38,
                           1e300,
                           1e-310,
                           2147483647.0,
                           -2147483648.0,
                           4294967297.0,
                           9.3e18,
                           -9.3e18,
                           16777217.0,
                           std::numeric_limits<double>::infinity(),
                           std::nan("")};
  const DType types[] = {DType::boolean, DType::i32, DType::i64, DType::f32, DType::f64};
  int joined = 0;
  for (DType a : types) {
    for (DType b : types) {
      for (DType c : types) {
        if ((b == DType::boolean && a != b) || (c == DType::boolean && b != c)) continue;
        std::string text = "  report @r : " + std::string(name(c)) +
                           "\n  arg %x : " + std::string(name(a)) +
                           "\n  %y = cast %x : " + std::string(name(b)) +
                           "\n  %z = cast %y : " + std::string(name(c)) + "\n  write @r, %z\n";
        Program p = collapse_casts(testing::parse_body(text));
        const Inst& write = p.insts.back();
        const Inst& last = p[write.operands[0]];
        if (last.op == Op::cast && p[last.operands[0]].op != Op::arg) continue;
        ++joined;
        for (double v : values) {
          Bits x = a == DType::boolean ? Bits::of(v > 0) : sem::cast(Bits::of(v), DType::f64, a);
          Bits both = sem::cast(sem::cast(x, a, b), b, c);
          CHECK(canonical_nan(sem::cast(x, a, c), c) == canonical_nan(both, c));
        }
      }
    }
  }
  CHECK(joined > 20);
}
