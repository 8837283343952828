// Finds the code of a plan that is needed. Knows the plan.
#include <algorithm>
#include <ranges>

#include "compiler/plan/plan.hpp"

namespace stepfuse::plan {

std::vector<Inst> needed_code(const std::vector<Inst>& code, std::set<Id>* needed) {
  std::vector<Inst> kept;
  for (auto inst = code.rbegin(); inst != code.rend(); ++inst) {
    if (!needed->contains(inst->value)) continue;
    for_each_operand(*inst, [&](Id o) { needed->insert(o); });
    kept.push_back(*inst);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

void drop_unneeded(Phase* phase) {
  std::set<Id> needed = {phase->guard};
  for (const Bodies* bodies : {&phase->bodies, &phase->otherwise}) {
    for (const Body& body : *bodies) for_each_operand(body, [&](Id o) { needed.insert(o); });
  }
  for (const NamedGranularity& g : std::views::reverse(kGranularities)) {
    phase->uniform.set(g.at, needed_code(phase->uniform.of(g.at), &needed));
  }
}

}  // namespace stepfuse::plan
