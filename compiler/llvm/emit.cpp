// Writes a plan as one LLVM IR module for a CPU target: joins the texts of the part emitters. Knows the
// plan, the target's names and those emitters.
#include "compiler/llvm/emit.hpp"

#include "compiler/llvm/members.hpp"
#include "compiler/llvm/phase.hpp"

namespace stepfuse {
namespace {

// nounwind avoids unwind tables. no-builtins keeps loops from becoming calls of memset, because an object
// must not have undefined symbols.
std::string attributes(const CpuTarget& target) {
  std::string common = fmt::format(
      "nounwind \"no-builtins\" \"target-cpu\"=\"{}\" \"target-features\"=\"{}\" "
      "\"prefer-vector-width\"=\"{}\"",
      target.cpu, target.features, target.vector_bits);
  return fmt::format("attributes #0 = {{ {0} }}\nattributes #1 = {{ noinline {0} }}\n", common);
}

}  // namespace

std::string emit_llvm(const KernelPlan& plan, const CpuTarget& target) {
  llvm::Module module(target);
  std::string functions;
  for (size_t p = 0; p < plan.phases.size(); ++p) {
    functions += llvm::emit_enter(plan, module, p) + "\n";
    functions += llvm::emit_phase(plan, module, p) + "\n";
    for (size_t r = 0; r < plan.phases[p].rollups.size(); ++r) {
      functions += llvm::emit_rollup(plan, module, p, r) + "\n";
    }
  }
  functions += llvm::emit_finish(plan, module) + "\n";

  // The text does not distinguish fused from split, so both share one cached object.
  std::string text = fmt::format("; stepfuse: step @{}, {} lanes\n", plan.name, module.lanes);
  for (size_t s = 0; s < plan.signatures.size(); ++s) {
    text += fmt::format("; signature {}: {}\n", s, plan.signatures[s]);
  }
  text += "\n" + functions;
  for (const auto& [helper, body] : module.helpers) text += body;
  for (const auto& [constant, value] : module.constants) {
    text += fmt::format("@{} = private unnamed_addr constant {}\n", constant, value);
  }
  for (const std::string& declaration : module.declarations) {
    // A helper may have added it already.
    if (text.find(declaration) == std::string::npos) text += declaration + "\n";
  }
  return text + "\n" + attributes(target) +
         "!0 = !{i32 1}\n!1 = !{!\"branch_weights\", i32 1, i32 1048576}\n";
}

}  // namespace stepfuse
