// More pieces than one fold holds: the second level of the canonical order. Knows all layers.
#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>

#include "ir/semantics/reduction.hpp"
#include "runtime/cpu/llvm_compiler.hpp"
#include "tests/support/check.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

TEST_CASE("20,000 one-element tensors in three groups: every kind of result") {
  if (!llvm_status().available) return;
  Program p = parse(R"(step @pieces {
    buffer @g : f32 in
    buffer @w : f32 inout
    report @all : f32
    report @groups : {f32}
    report @most : f32
    report @bad : bool
    report @by_group : {f32}
    report @by_tensor : f32
    %g = load @g : [f32]
    %all = reduce_add %g : f32
    %groups = reduce_add %g : {f32}
    %tensors = reduce_add %g : <f32>
    %most = reduce_max %g : f32
    %fin = isfinite %g : [bool]
    %bad_element = not %fin : [bool]
    %bad = reduce_any %bad_element : bool
    %by_group = reduce_add %tensors : {f32}
    %by_tensor = reduce_add %tensors : f32
    %x = mul %tensors, %groups : <f32>
    %y = mul %x, %all : <f32>
    store @w, %y
    write @all, %all
    write @groups, %groups
    write @most, %most
    write @bad, %bad
    write @by_group, %by_group
    write @by_tensor, %by_tensor
  })");
  Case c(p, 1);
  c.inputs = Inputs::normal;
  c.layout.group_count = 3;
  c.layout.signatures = {{DType::f32, DType::f32}};
  c.layout.tensors.clear();
  for (int t = 0; t < 20'000; ++t) {
    c.layout.tensors.push_back({.size = 1, .group = t % 3, .present = t % 7 != 0});
  }
  static_assert(20'000 > kPieceElements);
  Fault f = check_cpu(c);
  CHECK_MESSAGE(!f.has_value(), f.value_or(""));
}
