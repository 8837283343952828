// Cuts a body with blocks into what is done for blocks of one size, and for elements. Knows the plan.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/plan/plan.hpp"
#include "ir/semantics/reduction.hpp"

namespace stepfuse::plan {
namespace {

// What is used in another section than its own.
void find_kept(const KernelPlan& plan, const std::map<Id, int32_t>& made, Body* body) {
  std::set<Id> kept;
  auto use = [&](Id v, int32_t level, int32_t block) {
    auto own = made.find(v);
    if (own == made.end()) return;
    if (own->second != level || block_of(plan[v].at) != block) kept.insert(v);
  };
  for (const Inst& inst : body->code) {
    for_each_operand(inst, [&](Id o) { use(o, inst.level, block_of(plan[inst.value].at)); });
  }
  for (const Combine& c : body->reductions) use(c.operand, c.level, 1);
  for (const Store& s : body->stores) {
    int32_t block = block_of(plan.array(body->arrays[static_cast<size_t>(s.array)]).at);
    use(s.value, s.level, block);
    use(s.predicate, s.level, block);
  }
  body->kept.assign(kept.begin(), kept.end());
}

}  // namespace

int32_t combined_rows(const Array& array, const ArrayUse& use) {
  return array.is_combined() && use.stored ? array.at.rows : 0;
}

void find_levels(const KernelPlan& plan, Body* body) {
  for (const ArrayUse& a : body->arrays)
    body->unit = std::max(body->unit, block_of(plan.array(a).at));
  for (const Inst& inst : body->code)
    body->unit = std::max(body->unit, block_of(plan[inst.value].at));
  if (body->unit == 1) return;
  std::map<Id, int32_t> made;
  auto level_of = [&](Id v) { return made.contains(v) ? made[v] : 0; };
  for (Inst& inst : body->code) {
    for_each_operand(inst, [&](Id o) { inst.level = std::max(inst.level, level_of(o)); });
    if (inst.reduces_block()) ++inst.level;
    made[inst.value] = inst.level;
  }
  for (Combine& c : body->reductions) c.level = level_of(c.operand);
  for (Store& s : body->stores) s.level = std::max(level_of(s.value), level_of(s.predicate));
  std::stable_sort(body->code.begin(), body->code.end(), [&](const Inst& a, const Inst& b) {
    return a.level != b.level ? a.level < b.level
                              : block_of(plan[a.value].at) > block_of(plan[b.value].at);
  });
  find_kept(plan, made, body);
}

std::vector<Section> sections_of(const KernelPlan& plan, const Body& body) {
  std::map<std::pair<int32_t, int32_t>, Section> found;  // by level and falling block
  auto at = [&](int32_t level, int32_t block) -> Section& {
    Section& section = found[{level, -block}];
    section.level = level;
    section.block = block;
    return section;
  };
  for (const Inst& inst : body.code)
    at(inst.level, block_of(plan[inst.value].at)).code.push_back(&inst);
  for (const Combine& c : body.reductions) at(c.level, 1).reductions.push_back(&c);
  for (const Store& s : body.stores) {
    at(s.level, block_of(plan.array(body.arrays[static_cast<size_t>(s.array)]).at))
        .stores.push_back(&s);
  }
  std::vector<Section> out;
  for (auto& [key, section] : found) out.push_back(std::move(section));
  return out;
}

}  // namespace stepfuse::plan
