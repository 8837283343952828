// Reductions of group and tensor values on the PTX machine: the interpreter's bits, and faults
// planted in the text that makes them. Knows all layers.
#include <limits>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/parser.hpp>

#include "compiler/cuda/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "ir/semantics/interpreter.hpp"
#include "ir/semantics/reduction.hpp"
#include "tests/ptx/edited_kernel.hpp"
#include "tests/support/needs_nvrtc.hpp"
#include "tests/support/random_data.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// Every kind of rollup: tensors to groups and to the step, groups to the step, of another's result,
// with a step value in it, in 32 and in 64 bits.
constexpr const char* kProgram = R"(step @rollups {
  buffer @grad : f32 in
  buffer @weight : f32 inout
  state @seen : <i64>
  report @groups : {f32}
  report @most : f32
  report @absent : {i64}
  report @mean : f64
  report @left : f32
  %g = load @grad : [f32]
  %sq = mul %g, %g : [f32]
  %total = reduce_add %sq : f32
  %sum = reduce_add %sq : <f32>
  %one = const 1 : f32
  %above = lt %one, %g : [bool]
  %some = reduce_any %above : bool
  %any = cast %some : f32
  %base = add %total, %any : f32
  %share = div %sum, %base : <f32>
  %groups = reduce_add %share : {f32}
  %most = reduce_max %groups : f32
  %largest = reduce_max %share : f32
  %lack = sub %largest, %share : <f32>
  %left = reduce_add %lack : f32
  %wide = cast %share : <f64>
  %mean = reduce_add %wide : f64
  %here = present : <bool>
  %gone = not %here : <bool>
  %counted = cast %gone : <i64>
  %seen = read @seen : <i64>
  %seen1 = add %seen, %counted : <i64>
  %absent = reduce_add %seen1 : {i64}
  %most_absent = reduce_min %absent : i64
  %rest = cast %most_absent : f32
  %scale = add %most, %rest : f32
  %rate = mul %groups, %scale : {f32}
  %d = mul %g, %rate : [f32]
  %w = load @weight : [f32]
  %w1 = sub %w, %d : [f32]
  store @weight, %w1
  write @seen, %seen1
  write @groups, %groups
  write @most, %most
  write @absent, %absent
  write @mean, %mean
  write @left, %left
}
)";

TestLayout layout_of() {
  TestLayout layout;
  layout.signatures = {{DType::f32, DType::f32}};
  layout.group_count = 3;
  for (int t = 0; t < 30; ++t) {
    uint64_t size = t == 11 ? kPieceElements + 5 : static_cast<uint64_t>(t % 5) * 17;
    layout.tensors.push_back({.size = size, .group = t * t % 3, .present = t % 7 != 3});
  }
  return layout;
}

// The program as it is, with `from` in its text replaced by `to`.
Outcome run(Form form, const std::string& from, const std::string& to, uint64_t seed,
            bool zero_workspace = true) {
  Program program = parse(kProgram);
  TestLayout layout = layout_of();
  Variant variant = make_variant(optimize(program, layout.signatures), layout.signatures, form);
  TestData input(program, layout, 5, Inputs::normal);
  return run_edited(program, std::move(variant), input,
                    {.seed = seed, .zero_workspace = zero_workspace}, from, to);
}

}  // namespace

TEST_CASE("a part with one member is combined with the identity") {
  STEPFUSE_NEEDS_NVRTC();
  Program program = parse(R"(step @lonely {
  buffer @grad : f32 in
  state @kept : <f32>
  report @sum : {f32}
  report @most : {f32}
  report @any : {bool}
  %g = load @grad : [f32]
  %total = reduce_add %g : f32
  %k = read @kept : <f32>
  %sum = reduce_add %k : {f32}
  %most = reduce_max %k : {f32}
  %zero = const 0 : f32
  %is = le %k, %zero : <bool>
  %any = reduce_any %is : {bool}
  write @kept, %k
  write @sum, %sum
  write @most, %most
  write @any, %any
}
)");
  TestLayout layout{.signatures = {{DType::f32}}, .group_count = 2};
  layout.tensors = {{.size = 3, .group = 0}, {.size = 5, .group = 1}};
  for (float kept : {-0.0F, 0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    TestData expected(program, layout, 1, Inputs::normal);
    for (Bits& b : expected.step().states[0]) b = Bits::of(kept);
    TestData actual(expected);
    interpret(program, expected.step());
    if (kept == 0) CHECK(expected.step().states[1][0].raw == 0);  // +0, whatever zero it was
    Variant variant = make_variant(program, layout.signatures, Form::fused);
    std::string text = emit_cuda(variant.plan);
    DeviceRunner(std::move(variant), text, 90).run(actual.step(), {.seed = 1});
    CHECK(difference(program, expected, actual).value_or("") == "");
  }
}

TEST_CASE("a reduction that loads no array takes every element") {
  STEPFUSE_NEEDS_NVRTC();
  Program program = parse(R"(step @places {
  report @sum : i32
  report @last : i32
  %k = element_index : [i32]
  %sum = reduce_add %k : i32
  %last = reduce_max %k : i32
  write @sum, %sum
  write @last, %last
}
)");
  TestLayout layout{.signatures = {{}}, .group_count = 1};
  for (uint64_t size : {uint64_t{1}, uint64_t{37}, uint64_t{kPieceElements} + 5}) {
    layout.tensors = {{.size = size, .group = 0}, {.size = 3000, .group = 0}};
    TestData expected(program, layout, 1, Inputs::normal);
    TestData actual(expected);
    interpret(program, expected.step());
    Variant variant = make_variant(program, layout.signatures, Form::fused);
    std::string text = emit_cuda(variant.plan);
    DeviceRunner(std::move(variant), text, 90).run(actual.step(), {.seed = 1});
    CHECK(difference(program, expected, actual).value_or("") == "");
  }
}

TEST_CASE("group and tensor values are reduced behind a phase, in every form") {
  STEPFUSE_NEEDS_NVRTC();
  for (Form form : {Form::fused, Form::split, Form::unfused}) {
    for (uint64_t seed : {1, 2, 3}) {
      Outcome o = run(form, "", "", seed, false);
      CHECK(o.fault == "");
      CHECK(o.difference == "");
    }
  }
}

TEST_CASE("faults in what stands behind a phase are caught") {
  STEPFUSE_NEEDS_NVRTC();
  struct Fault {
    const char* name;
    std::string from, to;
    const char* says;  // of the machine; "": the bits differ
  };
  const Fault faults[] = {
      {"a group's result is folded over the tensors in their own order",
       "parts.members != nullptr ? parts.members + from : nullptr", "nullptr", ""},
      {"a group's result is folded over wrong pieces", "(ctx.step.parts[2], ",
       "(ctx.step.parts[1], ", ""},
      {"absent tensors are left out", "const bool t_here =",
       "if ((tensor.flags & abi::kPresent) == 0) continue;\nconst bool t_here =", ""},
      {"results are read before they stand", "__syncthreads();  // results stand", "", "results"},
      {"the fold does not wait for the operands", "__syncthreads();\n        fold_parts<Add>",
       "fold_parts<Add>", "slots"},
  };
  for (const Fault& f : faults) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      CAPTURE(f.name);
      Outcome o = run(Form::fused, f.from, f.to, seed);
      if (*f.says == '\0') {
        CHECK(o.difference != "");
      } else {
        INFO("said: ", o.fault);
        CHECK(o.fault.find(f.says) != std::string::npos);
      }
    }
  }
}
