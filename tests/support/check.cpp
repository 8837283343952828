// Properties of every valid program. Knows ir and compiler.
#include "tests/support/check.hpp"

#include <fmt/format.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>

#include "compiler/passes/pass_manager.hpp"
#include "ir/program/verifier.hpp"
#include "ir/semantics/interpreter.hpp"
#include "tests/support/random_program.hpp"
#include "tests/support/rng.hpp"

namespace stepfuse::testing {

Case::Case(Program p, uint64_t s)
    : program(std::move(p)), seed(s), layout(random_layout(program, s)) {
  inputs = Rng(seed, "inputs").chance(50) ? Inputs::special : Inputs::normal;
}

Case random_case(uint64_t seed) {
  Rng rng(seed, "options");
  ProgramOptions options;
  options.coarse_reductions = rng.chance(30);
  if (rng.chance(2)) options.max_ops = 100;
  return Case(random_program(seed, options), seed);
}

Fault check_text(const Case& c) {
  std::string text = print(c.program);
  Program again = parse(text);
  if (!(again == c.program)) return "parsing the printed text gives another program";
  if (print(again) != text) return "printing is no fixed point";
  return std::nullopt;
}

Fault check_passes(const Case& c) {
  TestData expected = c.data();
  TestData before(expected);
  interpret(c.program, expected.step());
  Program current = c.program;
  for (int round = 1; round <= 2; ++round) {
    for (const Pass& pass : optimization_passes()) {
      Program next = pass.run(current, c.layout.signatures);
      if (next == current) continue;
      if (auto faults = find_violations(next); !faults.empty()) {
        return fmt::format("{} broke V{}: {}", pass.name, faults[0].rule, faults[0].message);
      }
      if (!(pass.run(next, c.layout.signatures) == next)) {
        return fmt::format("{} is not idempotent", pass.name);
      }
      TestData actual(before);
      interpret(next, actual.step());
      if (Fault f = difference(c.program, expected, actual)) {
        return fmt::format("after {}: {}", pass.name, *f);
      }
      current = std::move(next);
    }
  }
  Program optimized = optimize(c.program, c.layout.signatures);
  if (!(optimize(optimized, c.layout.signatures) == optimized)) return "optimize is not idempotent";
  return std::nullopt;
}

}  // namespace stepfuse::testing
