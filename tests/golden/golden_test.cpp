// Every stage's text for a few steps, as files: what a change of a recipe, pass, schedule or emitter
// does is seen in their difference. Knows ir and compiler.
#include "tests/golden/golden.hpp"

#include <algorithm>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/printer.hpp>

#include "compiler/embedded.hpp"
#include "compiler/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "tests/golden/golden_cases.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

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
