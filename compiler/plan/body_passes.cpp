// Divides a body into passes: each computes blocks of one size, or elements. Knows the plan.
//
// Values per block are element values: a reduction to blocks ends no phase and needs no barrier, because chunks and
// shards are cut at multiples of the largest block. A CPU kernel does the passes over units of the largest block, with
// stack arrays between them. In a GPU a thread holds eight elements and a warp a whole block.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/plan/plan.hpp"

namespace stepfuse::plan {
namespace {

class Division {
 public:
  Division(const KernelPlan& plan, Body& body) : plan_(plan), body_(body) {}

  void run() {
    for (const ArrayUse& a : body_.arrays) widen(plan_.array(a).at);
    for (const Inst& inst : body_.code) widen(plan_[inst.value].at);
    for (const Inst& inst : body_.code) {
      int32_t level = 0;
      for_each_operand(inst, [&](Id o) { level = std::max(level, level_of(o)); });
      level_[inst.value] = level + (inst.reduces_block() ? 1 : 0);
    }
    auto key = [&](const Inst& inst) {
      return std::pair(level_[inst.value], -block_of(plan_[inst.value].at));
    };
    std::stable_sort(body_.code.begin(), body_.code.end(),
                     [&](const Inst& a, const Inst& b) { return key(a) < key(b); });
    divide();
    find_inputs();
  }

 private:
  void widen(Granularity at) { body_.unit = std::max(body_.unit, block_of(at)); }
  int32_t level_of(Id v) const {
    auto made = level_.find(v);
    return made == level_.end() ? 0 : made->second;
  }

  void divide() {
    std::map<std::pair<int32_t, int32_t>, Pass> found;  // by level and falling block
    auto pass = [&](int32_t level, int32_t block) -> Pass& {
      Pass& p = found[{level, -block}];
      p.level = level;
      p.block = block;
      return p;
    };
    for (size_t i = 0; i < body_.code.size(); ++i) {
      Id v = body_.code[i].value;
      Pass& p = pass(level_[v], block_of(plan_[v].at));
      if (p.count++ == 0) p.first = i;
    }
    for (size_t i = 0; i < body_.reductions.size(); ++i) {
      pass(level_of(body_.reductions[i].operand), 1).reductions.push_back(i);
    }
    for (size_t i = 0; i < body_.stores.size(); ++i) {
      const Store& s = body_.stores[i];
      int32_t block = block_of(plan_.array(body_.arrays[static_cast<size_t>(s.array)]).at);
      pass(std::max(level_of(s.value), level_of(s.predicate)), block).stores.push_back(i);
    }
    for (auto& [key, p] : found) body_.passes.push_back(std::move(p));
  }

  void find_inputs() {
    std::map<Id, size_t> made;
    for (size_t i = 0; i < body_.code.size(); ++i) made[body_.code[i].value] = i;
    for (Pass& p : body_.passes) {
      std::set<Id> known;
      auto use = [&](Id v) {
        if (made.contains(v) && known.insert(v).second) p.inputs.push_back(made[v]);
      };
      for (const Inst& inst : body_.code_of(p)) {
        if (inst.reduces_block()) {
          body_.code[made[inst.operands[0]]].kept = true;
        } else {
          for_each_operand(inst, use);
        }
        known.insert(inst.value);
      }
      for (size_t r : p.reductions) use(body_.reductions[r].operand);
      for (size_t s : p.stores) {
        use(body_.stores[s].value);
        use(body_.stores[s].predicate);
      }
      for (size_t i : p.inputs) body_.code[i].kept = true;
    }
  }

  const KernelPlan& plan_;
  Body& body_;
  std::map<Id, int32_t> level_;  // of the values that the body computes
};

}  // namespace

void find_passes(const KernelPlan& plan, Body* body) { Division(plan, *body).run(); }

int32_t combined_rows(const Array& array, const ArrayUse& use) {
  return array.is_combined() && use.stored ? array.at.rows : 0;
}

}  // namespace stepfuse::plan
