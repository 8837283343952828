// Computes levels, slices and bodies: cuts phases out of a Program. Knows ir.
//
// A reduction's result belongs to the next phase. A phase's element code is the slice backwards from what it stores and
// reduces, so a value that two phases need is computed again from its loads.
#include "compiler/schedule/analysis.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace stepfuse {
namespace {

size_t index(ValueId v) { return static_cast<size_t>(v); }

bool is_uniform(const Program& p, ValueId v) {
  return v != kNoValue && !is_of_elements(p[v].type.at);
}

// Returns the predicate, coarser than elements, that guards most of the stores.
ValueId choose_guard(const Program& p, const std::vector<ValueId>& stores) {
  std::map<ValueId, int> votes;
  for (ValueId s : stores) {
    if (is_uniform(p, p[s].predicate)) ++votes[p[s].predicate];
  }
  ValueId guard = kNoValue;
  for (const auto& [predicate, count] : votes) {
    if (guard == kNoValue || count > votes[guard]) guard = predicate;
  }
  return guard;
}

std::vector<ValueId> body_roots(const Program& p, const Body& body) {
  std::vector<ValueId> roots;
  for (ValueId r : body.reductions) roots.push_back(p[r].operands[0]);
  for (const StoreAction& s : body.stores) {
    roots.push_back(p[s.store].operands[0]);
    if (s.predicate != kNoValue) roots.push_back(s.predicate);
  }
  for (const Crossing& k : body.keeps) roots.push_back(k.value);
  return roots;
}

void complete_body(const Program& p, const std::vector<Crossing>& fetchable, Body& body) {
  std::vector<ValueId> roots = body_roots(p, body);
  body.code = backward_slice(p, roots, fetchable).element;
  for (const Crossing& f : fetchable) {
    auto uses = [&](ValueId v) {
      // An earlier phase has computed the result from its operands.
      if (is_folded(p[v])) return false;
      bool found = false;
      for_each_operand(p[v], [&](ValueId o) { found |= o == f.value; });
      return found;
    };
    bool needed = std::find(roots.begin(), roots.end(), f.value) != roots.end() ||
                  std::any_of(body.code.begin(), body.code.end(), uses);
    if (needed) body.fetches.push_back(f);
  }
}

bool needs_any(const Program& p, const UniformCode& code, const std::vector<ValueId>& values) {
  return std::any_of(values.begin(), values.end(), [&](ValueId v) {
    const std::vector<ValueId>& list = code.of(p[v].type.at);
    return std::binary_search(list.begin(), list.end(), v);
  });
}

// Returns the code for coarser values, outside of any phase.
UniformCode code_of_members(const Program& p, const std::vector<ValueId>& roots) {
  Slice slice = backward_slice(p, roots, {});
  // Outside of phases, per-column values are code of their own.
  slice.uniform.set(per::column, std::move(slice.element));
  return std::move(slice.uniform);
}

// Puts each reduction into the first rollup with its operand's granularity that comes after all those whose
// results the operand needs.
std::vector<Rollup> make_rollups(const Program& p, const std::vector<ValueId>& reductions) {
  std::vector<Rollup> rollups;
  for (ValueId r : reductions) {
    ValueId operand = p[r].operands[0];
    UniformCode needs = code_of_members(p, {operand});
    size_t at = 0;
    for (size_t k = 0; k < rollups.size(); ++k) {
      if (needs_any(p, needs, rollups[k].reductions)) at = k + 1;
    }
    while (at < rollups.size() && rollups[at].from != p[operand].type.at) ++at;
    if (at == rollups.size()) rollups.push_back({p[operand].type.at, {}, {}});
    rollups[at].reductions.push_back(r);
  }
  for (Rollup& rollup : rollups) {
    std::vector<ValueId> operands;
    for (ValueId r : rollup.reductions) operands.push_back(p[r].operands[0]);
    rollup.uniform = code_of_members(p, operands);
  }
  return rollups;
}

}  // namespace

bool is_element_reduction(const Program& p, ValueId v) {
  return is_folded(p[v]) && is_tile(p[p[v].operands[0]].type.at);
}

std::vector<int> reduction_levels(const Program& p) {
  std::vector<int> level(p.insts.size(), 0);
  for (ValueId v = 0; v < p.size(); ++v) {
    int& own = level[index(v)];
    for_each_operand(p[v], [&](ValueId o) { own = std::max(own, level[index(o)]); });
    if (is_element_reduction(p, v)) {
      ++own;
    } else if (is_folded(p[v])) {
      own = std::max(own, 1);
    }
  }
  return level;
}

namespace {

// Chooses the phases of reductions. It places the users of a reduction before the reduction itself.
class ReductionPlacer {
 public:
  explicit ReductionPlacer(const Program& p) : p_(p), level_(reduction_levels(p)) {
    for (ValueId v = 0; v < p.size(); ++v) {
      int behind = is_folded(p[v]) ? 1 : 0;
      last_ = std::max(last_, level_[index(v)] - behind);
      if (is_element_reduction(p, v)) deepest_ = std::max(deepest_, level_[index(v)]);
    }
  }

  std::vector<int> run() {
    // Ranks may exchange the results of the first phase. If all reductions can be made there, they are.
    if (deepest_ <= 1) return place([](ValueId, int first, int) { return first; });
    // First find what each phase loads anyway: for reductions that have only one possible phase, and for
    // stores.
    loads_.resize(static_cast<size_t>(last_) + 1);
    std::vector<bool> fixed(p_.insts.size(), false);
    place([&](ValueId r, int first, int latest) {
      fixed[index(r)] = first == latest;
      return first;
    });
    for (ValueId v = 0; v < p_.size(); ++v) {
      bool stores = p_[v].op == Op::store;
      if (!stores && !fixed[index(v)]) continue;
      auto phase = static_cast<size_t>(stores ? last_ : level_[index(v)] - 1);
      loads_[phase].merge(loads_of(v));
    }
    return place([&](ValueId r, int first, int latest) {
      if (fixed[index(r)]) return first;
      std::set<int32_t> own = loads_of(r);
      auto free_in = [&](int phase) {
        const std::set<int32_t>& there = loads_[static_cast<size_t>(phase)];
        return std::includes(there.begin(), there.end(), own.begin(), own.end());
      };
      for (int phase = latest; phase > first && !free_in(first); --phase) {
        if (free_in(phase)) return phase;
      }
      return first;
    });
  }

 private:
  // `choose` returns the phase, within first … latest, that makes a reduction.
  template <class Choose>
  std::vector<int> place(Choose&& choose) const {
    std::vector<int> phase(p_.insts.size(), -1);
    std::vector<int> needed(p_.insts.size(), last_ + 1);  // the first phase that needs the value
    for (ValueId v = p_.size() - 1; v >= 0; --v) {
      const Inst& inst = p_[v];
      if (inst.op == Op::write) continue;
      int at = inst.op == Op::store ? last_ : needed[index(v)];
      if (is_element_reduction(p_, v)) {
        phase[index(v)] = at = choose(v, level_[index(v)] - 1, at - 1);
      } else if (is_folded(inst)) {
        at = level_[index(v)];  // made behind the previous phase
      }
      for_each_operand(inst, [&](ValueId o) { needed[index(o)] = std::min(needed[index(o)], at); });
    }
    return phase;
  }

  std::set<int32_t> loads_of(ValueId root) const {
    std::vector<ValueId> operands;
    for_each_operand(p_[root], [&](ValueId o) { operands.push_back(o); });
    std::set<int32_t> loads;
    for (ValueId v : backward_slice(p_, operands, {}).element) {
      if (p_[v].op == Op::load) loads.insert(p_[v].slot);
    }
    return loads;
  }

  const Program& p_;
  std::vector<int> level_;
  int last_ = 0;
  int deepest_ = 0;                       // largest level of a reduction over elements
  std::vector<std::set<int32_t>> loads_;  // [phase] buffers that it loads anyway
};

}  // namespace

std::vector<int> reduction_phases(const Program& program) { return ReductionPlacer(program).run(); }

Slice backward_slice(const Program& p, const std::vector<ValueId>& roots,
                     const std::vector<Crossing>& fetched) {
  std::vector<bool> needed(p.insts.size(), false);
  std::vector<bool> given(p.insts.size(), false);
  for (const Crossing& k : fetched) given[index(k.value)] = true;
  for (ValueId r : roots) needed[index(r)] = !given[index(r)];
  for (ValueId v = p.size() - 1; v >= 0; --v) {
    // A reduction is the result of an earlier phase, so its operands are not computed here.
    if (!needed[index(v)] || is_folded(p[v])) continue;
    for_each_operand(p[v], [&](ValueId o) {
      if (!given[index(o)]) needed[index(o)] = true;
    });
  }
  Slice slice;
  for (ValueId v = 0; v < p.size(); ++v) {
    if (!needed[index(v)]) continue;
    Granularity at = p[v].type.at;
    if (is_of_elements(at)) {
      slice.element.push_back(v);
    } else {
      slice.uniform.add(at, v);
    }
  }
  return slice;
}

Phase make_phase(const Program& p, std::string name, const PhaseRoots& roots) {
  Phase phase;
  phase.name = std::move(name);
  phase.guard = choose_guard(p, roots.stores);
  phase.body.reductions = roots.reductions;
  phase.body.keeps = roots.keeps;
  for (ValueId s : roots.stores) {
    bool implied = p[s].predicate != kNoValue && p[s].predicate == phase.guard;
    phase.body.stores.push_back({s, implied ? kNoValue : p[s].predicate});
  }
  if (phase.guard != kNoValue) {
    phase.otherwise.reductions = roots.reductions;
    phase.otherwise.keeps = roots.keeps;
    for (ValueId s : roots.stores) {
      if (p[s].predicate != phase.guard) phase.otherwise.stores.push_back({s, p[s].predicate});
    }
    complete_body(p, roots.fetchable, phase.otherwise);
  }
  complete_body(p, roots.fetchable, phase.body);
  std::vector<ValueId> all = body_roots(p, phase.body);
  if (phase.guard != kNoValue) all.push_back(phase.guard);
  phase.uniform = backward_slice(p, all, phase.body.fetches).uniform;
  phase.rollups = make_rollups(p, roots.rollups);
  return phase;
}

Finish make_finish(const Program& p) {
  Finish finish;
  std::vector<ValueId> roots;
  for (ValueId v = 0; v < p.size(); ++v) {
    if (p[v].op != Op::write) continue;
    finish.writes.push_back(v);
    for_each_operand(p[v], [&](ValueId o) { roots.push_back(o); });
  }
  finish.uniform = code_of_members(p, roots);
  return finish;
}

}  // namespace stepfuse
