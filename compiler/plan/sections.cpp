// Cuts a body with blocks into what is done for blocks of one size, and for elements. Knows the plan.
#include <map>
#include <utility>

#include "compiler/plan/plan.hpp"

namespace stepfuse::plan {

std::vector<Section> sections_of(const KernelPlan& plan, const Body& body) {
  std::map<std::pair<int32_t, int32_t>, Section> found;  // by level and falling block
  auto at = [&](int32_t level, int32_t block) -> Section& {
    Section& section = found[{level, -block}];
    section.level = level;
    section.block = block;
    return section;
  };
  for (const Inst& inst : body.code) at(inst.level, plan[inst.value].block).code.push_back(&inst);
  for (const Combine& c : body.reductions) at(c.level, 1).reductions.push_back(&c);
  for (const Store& s : body.stores) {
    at(s.level, plan.array(body.arrays[static_cast<size_t>(s.array)]).block).stores.push_back(&s);
  }
  std::vector<Section> out;
  for (auto& [key, section] : found) out.push_back(std::move(section));
  return out;
}

}  // namespace stepfuse::plan
