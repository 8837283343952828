// Whole steps whose kernels are looked at closely, and of whose texts some are kept. Knows ir and the
// recipes.
#pragma once

#include <string>
#include <vector>

#include <stepfuse/form.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/recipes.hpp>

#include "compiler/signature.hpp"
#include "tests/support/signatures.hpp"

namespace stepfuse::testing {

struct GoldenCase {
  std::string name;
  Program program;
  std::vector<Signature> signatures;
  std::vector<Form> kernels = {Form::fused};  // forms that are compiled
};

// A value of every granularity, reductions to all coarser ones, predicates of all granularities.
inline constexpr const char* kEveryGranularity = R"(step @granularities {
  buffer @grad : f16|bf16|f32 in
  buffer @weight : f32 inout
  buffer @copy : bf16 out
  buffer @mask : i32 in
  state @count : <i64>
  state @lr_scale : {f32} = 1
  state @total : f64
  report @group_norm : {f32}
  report @tensor_max : <f32>
  report @bad : bool
  arg %lr : {f64} = 0.01
  arg %limit : f32 = 10
  stage measure
  %raw = load @grad : [@grad]
  %g = cast %raw : [f32]
  %sq = mul %g, %g : [f32]
  %sum = reduce_add %sq : {f32}
  %group_norm = sqrt %sum : {f32}
  %size = abs %g : [f32]
  %tensor_max = reduce_max %size : <f32>
  %finite = isfinite %g : [bool]
  %bad_element = not %finite : [bool]
  %bad = reduce_any %bad_element : bool
  stage update
  %mask = load @mask : [i32]
  %none = const 0 : i32
  %off = eq %mask, %none : [bool]
  %on = not %off : [bool]
  %calm = lt %tensor_max, %limit : <bool>
  %good = not %bad : bool
  %chosen = and %on, %calm : [bool]
  %store = and %chosen, %good : [bool]
  %scale = read @lr_scale : {f32}
  %lr32 = cast %lr : {f32}
  %rate = mul %lr32, %scale : {f32}
  %per = div %rate, %group_norm : {f32}
  %d = mul %g, %per : [f32]
  %w0 = load @weight : [f32]
  %w1 = sub %w0, %d : [f32]
  %w16 = cast %w1 : [bf16]
  store @weight, %w1 if %store
  store @copy, %w16 if %calm
  stage count
  %t0 = read @count : <i64>
  %one = const 1 : i64
  %t1 = add %t0, %one : <i64>
  %total0 = read @total : f64
  %seen = cast %bad : f64
  %total1 = add %total0, %seen : f64
  write @count, %t1 if %good
  write @lr_scale, %rate if %good
  write @total, %total1
  write @group_norm, %group_norm
  write @tensor_max, %tensor_max if %calm
  write @bad, %bad
}
)";

inline RecipeOptions mixed_precision() {
  return {.grad = DType::f16,
          .master = true,
          .loss_scale = LossScale::dynamic,
          .clip = Clip::l2,
          .zero_grad = true};
}

inline std::vector<GoldenCase> golden_cases() {
  std::vector<GoldenCase> cases;
  auto add = [&](std::string name, Program p, std::vector<Form> kernels, bool mixed = false) {
    std::vector<DType> grads = {DType::f16};
    if (mixed) grads.push_back(DType::f32);
    std::vector<Signature> signatures = signatures_of(p, grads);
    cases.push_back({std::move(name), std::move(p), std::move(signatures), std::move(kernels)});
  };
  add("sgd", make_recipe("sgd"), {Form::fused});
  add("adamw", make_recipe("adamw"), {});
  add("adamw_amp", make_recipe("adamw", mixed_precision()), {Form::fused, Form::unfused});
  RecipeOptions mixed{.grad = DTypeSet(DType::f16) | DType::f32, .moments = DType::bf16};
  mixed.check = true;
  add("adamw_mixed", make_recipe("adamw", mixed), {}, true);
  add("granularities", parse(kEveryGranularity), {Form::fused}, true);
  RecipeOptions group_clip{.clip = Clip::l2, .clip_per_group = true};
  add("sgd_group_clip", make_recipe("sgd", group_clip), {Form::fused});
  return cases;
}

}  // namespace stepfuse::testing
