// Every stage's text for a few steps, as files: what a change of a recipe, pass, schedule or emitter
// does is seen in their difference. Knows ir and compiler.
#include "tests/golden/golden.hpp"

#include <algorithm>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "compiler/embedded.hpp"
#include "compiler/emit.hpp"
#include "compiler/pass_manager.hpp"
#include "ir/parser.hpp"
#include "ir/printer.hpp"
#include "ir/recipes/recipes.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

struct GoldenCase {
  std::string name;
  Program program;
  std::vector<Signature> signatures;
  std::vector<Form> kernels = {Form::fused};  // forms whose emitted text is kept
};

// A value of every domain, reductions to all coarser ones, predicates of all domains.
constexpr const char* kDomains = R"(step @domains {
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

RecipeOptions mixed_precision() {
  return {.grad = DType::f16,
          .master = true,
          .loss_scale = LossScale::dynamic,
          .clip = Clip::l2,
          .zero_grad = true};
}

// The storage types of the buffers; `grad` where the gradient's may be several.
Signature signature(const Program& p, DType grad) {
  Signature s;
  for (const Buffer& b : p.buffers) s.push_back(b.dtypes.size() == 1 ? b.dtypes.only() : grad);
  return s;
}

std::vector<GoldenCase> golden_cases() {
  std::vector<GoldenCase> cases;
  auto add = [&](std::string name, Program p, std::vector<Form> kernels, bool mixed = false) {
    std::vector<Signature> signatures = {signature(p, DType::f16)};
    if (mixed) signatures.push_back(signature(p, DType::f32));
    cases.push_back({std::move(name), std::move(p), std::move(signatures), std::move(kernels)});
  };
  add("sgd", make_recipe("sgd"), {Form::fused});
  add("adamw", make_recipe("adamw"), {});
  add("adamw_amp", make_recipe("adamw", mixed_precision()), {Form::fused, Form::unfused});
  RecipeOptions mixed{.grad = DTypeSet(DType::f16) | DType::f32, .moments = DType::bf16};
  mixed.check = true;
  add("adamw_mixed", make_recipe("adamw", mixed), {}, true);
  add("domains", parse(kDomains), {Form::fused}, true);
  return cases;
}

// What every kernel begins with has tests of its own.
std::string without_prelude(std::string text) {
  for (auto [what, name] :
       {std::pair{embedded_abi(), "abi.hpp"}, std::pair{embedded_prelude(), "prelude.cuh"}}) {
    size_t at = text.find(what);
    REQUIRE(at != std::string::npos);
    text.replace(at, what.size(), fmt::format("// … {} …\n", name));
  }
  return text;
}

}  // namespace

TEST_CASE("golden: every stage of every step") {
  for (const GoldenCase& c : golden_cases()) {
    CAPTURE(c.name);
    auto file = [&](std::string_view stage) { return fmt::format("{}/{}", c.name, stage); };
    check_golden(file("ir.sf"), print(c.program));
    Program p = optimize(c.program, c.signatures);
    check_golden(file("passes.sf"), print(p));
    for (Form form : {Form::fused, Form::split, Form::unfused}) {
      Schedule s = make_schedule(p, {.form = form, .signatures = c.signatures});
      check_golden(file(fmt::format("schedule.{}.txt", name(form))), print(s));
      bool kept = std::find(c.kernels.begin(), c.kernels.end(), form) != c.kernels.end();
      if (!kept) continue;
      // A target of no machine in particular.
      CpuTarget target{.cpu = "x86-64-v3", .features = "+avx2,+f16c,+fma", .vector_bits = 256};
      check_golden(file(fmt::format("llvm.{}.ll", name(form))), emit_llvm(s, target));
      check_golden(file(fmt::format("cuda.{}.cu", name(form))), without_prelude(emit_cuda(s)));
    }
  }
}

TEST_CASE("golden: --emit=passes tells what every pass did") {
  GoldenCase c = golden_cases()[3];
  PassTrace trace;
  optimize(c.program, c.signatures, &trace);
  check_golden("adamw_mixed/passes.trace.txt", print(trace));
}

TEST_CASE("golden: what differs is shown with its place") {
  CHECK(line_difference("a\nb\n", "a\nb\n") == "");
  CHECK(line_difference("a\nb\nc\nd\n", "a\nb\nx\ny\nd\n") ==
        "from line 3:\n a\n b\n-c\n+x\n+y\n d\n");
  CHECK(line_difference("", "a\n") == "from line 1:\n+a\n");
  CHECK(line_difference("a", "a\n") == "from line 2:\n a\nonly the last line's end differs\n");
  std::string many;
  for (int i = 0; i < 30; ++i) many += "line\n";
  CHECK(line_difference("", many).find("+ … 10 more lines") != std::string::npos);
}
