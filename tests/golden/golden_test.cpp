// Texts of small steps and of recipes, as files: what a change of a recipe, pass, schedule or emitter
// does is seen in their difference. Knows ir and compiler.
#include "tests/support/golden.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/printer.hpp>

#include "compiler/c/emit.hpp"
#include "compiler/cuda/emit.hpp"
#include "compiler/embedded.hpp"
#include "compiler/llvm/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/plan/lower.hpp"
#include "tests/golden/features.hpp"
#include "tests/support/golden_cases.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// What every kernel begins with has tests of its own.
std::string without_prelude(std::string text) {
  for (auto [what, name] :
       {std::pair{embedded_abi(), "abi.hpp"}, std::pair{embedded_prelude(), "prelude.cuh"},
        std::pair{embedded_c_prelude(), "prelude.h"}}) {
    if (size_t at = text.find(what); at != std::string::npos) {
      text.replace(at, what.size(), fmt::format("// … {} …\n", name));
    }
  }
  return text;
}

// The functions that walk chunks; the others open the context, or are what every module has.
std::string phases_of(const std::string& module) {
  std::string kept;
  for (size_t at = 0; (at = module.find("define void @sf_phase_", at)) != std::string::npos;) {
    size_t end = module.find("\n}\n", at) + 3;
    kept += module.substr(at, end - at);
    at = end;
  }
  return kept;
}

std::string text_of(const Schedule& schedule, std::string_view stage) {
  if (stage == "schedule") return print(schedule);
  KernelPlan plan = lower(schedule);
  if (stage == "plan") return print(plan);
  if (stage == "c") return without_prelude(emit_c(plan));
  if (stage == "cuda") return without_prelude(emit_cuda(plan));
  // A target of no machine in particular.
  CpuTarget target{.cpu = "x86-64-v3", .features = "+avx2,+f16c,+fma", .vector_bits = 256};
  REQUIRE(stage == "llvm");
  return phases_of(emit_llvm(plan, target));
}

}  // namespace

TEST_CASE("golden: each thing that kernels do") {
  for (const Feature& f : features()) {
    Program p = parse(f.step);
    std::vector<Signature> signatures = signatures_of(p, f.grads);
    Schedule s = make_schedule(optimize(p, signatures), {.form = f.form, .signatures = signatures});
    for (std::string_view stage : f.texts) {
      check_golden(fmt::format("features/{}.{}.txt", f.name, stage), text_of(s, stage));
    }
  }
}

TEST_CASE("golden: recipes, and how they are cut into phases") {
  for (const GoldenCase& c : golden_cases()) {
    if (c.name == "domains") continue;
    check_golden(fmt::format("{}/ir.sf", c.name), print(c.program));
    if (c.name != "adamw_amp") continue;
    Program p = optimize(c.program, c.signatures);
    for (Form form : {Form::fused, Form::unfused}) {
      Schedule s = make_schedule(p, {.form = form, .signatures = c.signatures});
      check_golden(fmt::format("{}/schedule.{}.txt", c.name, name(form)), print(s));
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
