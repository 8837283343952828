// Small steps that each show one thing that kernels do, and the texts of it that are kept. Knows ir.
#pragma once

#include <string_view>
#include <vector>

#include <stepfuse/form.hpp>
#include <stepfuse/types.hpp>

namespace stepfuse::testing {

struct Feature {
  std::string_view name;
  std::string_view step;
  std::vector<std::string_view> texts;  // of schedule, plan, cuda, llvm, c
  Form form = Form::fused;
  std::vector<DType> grads = {DType::f32};  // a signature for each, of buffers that have several
};

inline const std::vector<Feature> kFeatures = {
    {"update",  // where an argument becomes a register, and a dtype a load
     R"(step @update {
  buffer @grad : f16 in
  buffer @weight : f32 inout
  arg %lr : {f64} = 0.1
  %lr32 = cast %lr : {f32}
  %down = neg %lr32 : {f32}
  %g16 = load @grad : [f16]
  %g = cast %g16 : [f32]
  %w = load @weight : [f32]
  %w1 = fma %g, %down, %w : [f32]
  store @weight, %w1
})",
     {"plan", "cuda", "llvm", "c"}},
    {"reduction",  // a barrier, and a guard of all that is behind it
     R"(step @reduction {
  buffer @grad : f32 in
  buffer @weight : f32 inout
  %g = load @grad : [f32]
  %square = mul %g, %g : [f32]
  %sum = reduce_add %square : f32
  %good = isfinite %sum : bool
  %w = load @weight : [f32]
  %w1 = div %w, %sum : [f32]
  store @weight, %w1 if %good
})",
     {"plan", "cuda", "c"}},
    {"expansion",  // an op that machines do not have, made of others
     R"(step @expansion {
  buffer @weight : f32 inout
  %w = load @weight : [f32]
  %low = const -1 : f32
  %high = const 1 : f32
  %near = clamp %w, %low, %high : [f32]
  store @weight, %near
})",
     {"cuda", "c"}},
    {"otherwise",  // what a false guard leaves to be done
     R"(step @otherwise {
  buffer @grad : f32 inout
  buffer @weight : f32 inout
  state @bad : <bool>
  %bad = read @bad : <bool>
  %good = not %bad : <bool>
  %g = load @grad : [f32]
  %w = load @weight : [f32]
  %w1 = sub %w, %g : [f32]
  %zero = const 0 : f32
  store @weight, %w1 if %good
  store @grad, %zero
})",
     {"plan", "cuda", "c"}},
    {"predicate",  // some elements of an array keep what they were
     R"(step @predicate {
  buffer @mask : i32 in
  buffer @weight : f32 inout
  %mask = load @mask : [i32]
  %none = const 0 : i32
  %off = eq %mask, %none : [bool]
  %zero = const 0 : f32
  store @weight, %zero if %off
})",
     {"plan", "cuda", "c"}},
    {"signatures",  // bodies for each storage type
     R"(step @signatures {
  buffer @grad : f16|bf16|f32 in
  buffer @weight : f32 inout
  %raw = load @grad : [@grad]
  %g = cast %raw : [f32]
  %w = load @weight : [f32]
  %w1 = sub %w, %g : [f32]
  store @weight, %w1
})",
     {"plan", "cuda", "c"},
     Form::fused,
     {DType::f16, DType::bf16, DType::f32}},
    {"float8",  // storage that a machine has no instructions for: conversions are expansions
     R"(step @float8 {
  buffer @weight : f8e4m3 inout
  %stored = load @weight : [f8e4m3]
  %w = cast %stored : [f32]
  %half = const 0.5 : f32
  %w1 = mul %w, %half : [f32]
  %new = cast %w1 : [f8e4m3]
  store @weight, %new
})",
     {"c"}},
    {"rollup",  // sums of tensors to groups, of groups to the step
     R"(step @rollup {
  buffer @grad : f32 in
  report @groups : {f32}
  report @most : f32
  %g = load @grad : [f32]
  %sum = reduce_add %g : <f32>
  %size = abs %sum : <f32>
  %groups = reduce_add %size : {f32}
  %most = reduce_max %groups : f32
  write @groups, %groups
  write @most, %most
})",
     {"plan", "cuda", "c"}},
    {"states",  // writes by domain, and what is reported
     R"(step @states {
  buffer @weight : f32 inout
  state @count : <i64>
  state @rate : {f32} = 1
  state @bad : bool
  report @steps : i64
  arg %limit : f32 = 10
  %bad = read @bad : bool
  %good = not %bad : bool
  %t0 = read @count : <i64>
  %one = const 1 : i64
  %t1 = add %t0, %one : <i64>
  %rate = read @rate : {f32}
  %next = min %rate, %limit : {f32}
  %all = reduce_max %t0 : i64
  %w = load @weight : [f32]
  %w1 = mul %w, %rate : [f32]
  store @weight, %w1
  write @count, %t1 if %good
  write @rate, %next
  write @steps, %all
})",
     {"plan", "cuda", "c"}},
    {"sizes",  // buffers that only tensors of some sizes have
     R"(step @sizes {
  buffer @small : f32 inout below 100
  buffer @code : u8 inout from 100
  buffer @scale : <f32/32> inout from 100
  buffer @weight : f32 inout
  %m0 = load @small : [f32]
  %code = load @code : [u8]
  %wide = cast %code : [i32]
  %part = cast %wide : [f32]
  %scale = load @scale : <f32/32>
  %m1 = mul %part, %scale : [f32]
  %n = element_count : <i64>
  %limit = const 100 : i64
  %is_small = lt %n, %limit : <bool>
  %m = select %is_small, %m0, %m1 : [f32]
  %w = load @weight : [f32]
  %w1 = sub %w, %m : [f32]
  store @weight, %w1
  store @small, %w1
  %size = abs %w1 : [f32]
  %most = reduce_max %size : <f32/32>
  store @scale, %most
})",
     {"plan"}},
    {"squares",  // values that 128 rows of 128 columns share
     R"(step @squares {
  buffer @weight : f32 in
  buffer @copy : f8e4m3 out
  buffer @scale : <f32/128x128> out
  %w = load @weight : [f32]
  %size = abs %w : [f32]
  %most = reduce_max %size : <f32/128x128>
  %scale = div 448, %most : <f32/128x128>
  %scaled = mul %w, %scale : [f32]
  %copy = cast %scaled : [f8e4m3]
  store @copy, %copy
  store @scale, %scale
})",
     {"plan"}},
    {"scratch",  // values that cross kernels
     R"(step @scratch {
  buffer @grad : f16 in
  buffer @weight : f16 inout
  arg %scale : f32 = 1
  stage unscale
  %g16 = load @grad : [f16]
  %g = cast %g16 : [f32]
  %d = mul %g, %scale : [f32]
  stage norm
  %sum = reduce_add %d : f32
  stage update
  %c = mul %d, %sum : [f32]
  %w = cast %c : [f16]
  store @weight, %w
})",
     {"schedule", "plan"},
     Form::unfused},
};

inline const std::vector<Feature>& features() { return kFeatures; }

}  // namespace stepfuse::testing
