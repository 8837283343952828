// Planted emitter faults: each is caught by random programs, and each really changed the text.
// Knows all layers.
#include <map>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "compiler/llvm/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "ir/semantics/interpreter.hpp"
#include "runtime/cpu/cpu_executor.hpp"
#include "runtime/cpu/llvm_compiler.hpp"
#include "tests/differential/llvm_faults.hpp"
#include "tests/support/check.hpp"
#include "tests/support/kernel_runner.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

struct Progress {
  int applied = 0;      // programs whose text the edit changed
  std::string caught;   // the first difference
  std::string problem;  // the edited text is no LLVM IR
};

// Runs the program with each fault that is not caught yet.
void try_faults(const Case& c, const std::vector<PlantedFault>& faults,
                std::vector<Progress>& progress) {
  TestData expected = c.data();
  TestData before(expected);
  interpret(c.program, expected.step());
  Program program = optimize(c.program, c.layout.signatures);
  CpuTarget target = host_cpu_target();
  CpuExecutor executor(1);
  std::map<Form, std::pair<Variant, std::string>> emitted;
  for (size_t i = 0; i < faults.size(); ++i) {
    Progress& p = progress[i];
    if (!p.caught.empty() || !p.problem.empty()) continue;
    auto& [variant, text] = emitted[faults[i].form];
    if (text.empty()) {
      variant = make_variant(program, c.layout.signatures, faults[i].form);
      text = emit_llvm(variant.plan, target) + "\n";
    }
    std::string edited = faults[i].edit(text);
    if (edited == text) continue;
    ++p.applied;
    try {
      TestData actual(before);
      KernelRunner(variant, edited, target).run(actual.step(), executor);
      if (Fault f = difference(c.program, expected, actual)) p.caught = *f;
    } catch (const Error& e) {
      p.problem = e.what();
    }
  }
}

}  // namespace

TEST_CASE("planted LLVM faults are caught") {
  if (!llvm_status().available) {
    MESSAGE("skipped: ", llvm_status().problem);
    return;
  }
  constexpr int kPrograms = 1000;
  std::vector<PlantedFault> faults = llvm_faults();
  std::vector<Progress> progress(faults.size());
  CHECK(faults.size() >= 10);
  for (int i = 0; i < kPrograms; ++i) {
    Case c = random_case(static_cast<uint64_t>(i) + 700'000);
    try_faults(c, faults, progress);
  }
  for (size_t i = 0; i < faults.size(); ++i) {
    CAPTURE(faults[i].name);
    CHECK(progress[i].problem == "");
    CHECK(progress[i].applied > 0);
    CHECK(progress[i].caught != "");
    MESSAGE(fmt::format("{}: caught by program {} of those it changes: {}", faults[i].name,
                        progress[i].applied, progress[i].caught));
  }
}
