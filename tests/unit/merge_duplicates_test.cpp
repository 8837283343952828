// Pass merge duplicates: equal computations become one, the first. Knows ir and the passes.
#include "compiler/passes/passes.hpp"
#include "tests/unit/pass_testing.hpp"

using namespace stepfuse;
using stepfuse::testing::check_pass;
using stepfuse::testing::check_unchanged;

TEST_CASE("merge duplicates: loads, reads, constants, arithmetic, reductions") {
  check_pass(merge_duplicates,
             R"(  buffer @g : f32 in
  buffer @w : f32 inout
  state @s : f32
  report @r : f32
  %g0 = load @g : [f32]
  %s0 = read @s : f32
  %c0 = const 2 : f32
  %a = mul %g0, %s0 : [f32]
  %n0 = reduce_add %a : f32
  stage update
  %g1 = load @g : [f32]
  %s1 = read @s : f32
  %c1 = const 2 : f32
  %b = mul %s1, %g1 : [f32]
  %n1 = reduce_add %b : f32
  %x = mul %b, %c1 : [f32]
  %y = mul %x, %c0 : [f32]
  store @w, %y
  %n = add %n0, %n1 : f32
  write @r, %n
)",
             R"(  buffer @g : f32 in
  buffer @w : f32 inout
  state @s : f32
  report @r : f32
  %g0 = load @g : [f32]
  %s0 = read @s : f32
  %c0 = const 2 : f32
  %a = mul %g0, %s0 : [f32]
  %n0 = reduce_add %a : f32
  stage update
  %x = mul %a, %c0 : [f32]
  %y = mul %x, %c0 : [f32]
  store @w, %y
  %n = add %n0, %n0 : f32
  write @r, %n
)");
}

TEST_CASE("merge duplicates: order, domain, type, slot and sign of zero keep values apart") {
  check_unchanged(merge_duplicates, R"(  buffer @g : f32 in
  buffer @h : f32 in
  buffer @w : f32 inout
  report @r : f32
  report @t : <f32>
  report @n : i64
  %g = load @g : [f32]
  %h = load @h : [f32]
  %d0 = sub %g, %h : [f32]
  %d1 = sub %h, %g : [f32]
  %m = mul %d0, %d1 : [f32]
  store @w, %m
  %all = reduce_add %g : f32
  %own = reduce_add %g : <f32>
  write @r, %all
  write @t, %own
  %zero = const 0 : f32
  %nzero = const -0 : f32
  %z = max %zero, %nzero : f32
  %i = cast %z : i32
  %l = cast %z : i64
  %il = cast %i : i64
  %sum = add %l, %il : i64
  write @n, %sum
)");
}
