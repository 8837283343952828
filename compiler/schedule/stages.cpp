// Builds the unfused form: one kernel per classic stage. Knows ir.
#include "compiler/schedule/stages.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "compiler/schedule/analysis.hpp"

namespace stepfuse {
namespace {

class Stages {
 public:
  explicit Stages(Schedule& s)
      : s_(s), p_(s.program), kernel_(s.program.insts.size(), 0), uses_(s.program.insts.size()) {}

  void run() {
    assign_kernels();
    collect_uses();
    delay_stores();
    find_crossings();
    build();
  }

 private:
  static size_t index(ValueId v) { return static_cast<size_t>(v); }
  // Whether it is computed per element, in one kernel or in each that needs it. Per-square results lie in
  // memory.
  bool is_element(ValueId v) const { return is_tile(p_[v].type.at) && !is_folded(p_[v]); }
  // Whether a rollup makes it, behind the kernel before the first one that may use it.
  bool is_rollup(ValueId v) const { return is_folded(p_[v]) && !is_element_reduction(p_, v); }
  // Whether it is work that must happen in one particular kernel.
  bool is_work(ValueId v) const {
    const Inst& inst = p_[v];
    if (inst.op == Op::store || is_element_reduction(p_, v)) return true;
    return is_element(v) && !is_effect(inst.op) && !is_source(inst.op);
  }

  // kernel_[v]: the kernel that does the work; for other values, the first kernel that can use them.
  void assign_kernels() {
    int current = 0;
    names_.emplace_back("");
    auto begin_kernel = [&](int k) {
      while (static_cast<int>(names_.size()) <= k) names_.push_back("");
      current = k;
    };
    std::set<int> busy;
    for (ValueId v = 0; v < p_.size(); ++v) {
      const Inst& inst = p_[v];
      if (inst.op == Op::stage) {
        if (busy.contains(current)) begin_kernel(current + 1);
        names_[static_cast<size_t>(current)] = p_.stages[static_cast<size_t>(inst.slot)];
        continue;
      }
      int first = 0;
      for_each_operand(inst, [&](ValueId o) {
        int after_reduction = is_element_reduction(p_, o) ? 1 : 0;
        first = std::max(first, kernel_[index(o)] + after_reduction);
      });
      if (is_work(v)) {
        if (first > current) begin_kernel(first);
        first = current;
        busy.insert(current);
      }
      if (is_rollup(v)) first = std::max(first, 1);
      kernel_[index(v)] = first;
    }
    kernel_count_ = current + (busy.contains(current) ? 1 : 0);
    bool rolls_up = false;
    for (ValueId v = 0; v < p_.size(); ++v) rolls_up |= is_rollup(v);
    if (rolls_up) kernel_count_ = std::max(kernel_count_, 1);
    name_kernels();
  }

  void name_kernels() {
    for (int k = 0; k < kernel_count_; ++k) {
      std::string& n = names_[static_cast<size_t>(k)];
      if (n.empty()) n = fmt::format("stage{}", k);
      // If a reduction cuts a stage in two, both parts have the stage's name: number the later one.
      if (std::count(names_.begin(), names_.begin() + k, n) > 0) n += std::to_string(k);
    }
  }

  // uses_[v]: the kernels that need element value v, other than for computing it.
  void collect_uses() {
    for (ValueId v = 0; v < p_.size(); ++v) {
      if (!is_work(v)) continue;
      for_each_operand(p_[v], [&](ValueId o) {
        if (is_element(o)) uses_[index(o)].insert(kernel_[index(v)]);
      });
    }
  }

  // Delays each store until the last load of its buffer. This also moves loads that only the store uses,
  // which may delay a different store.
  void delay_stores() {
    for (bool changed = true; changed;) {
      changed = false;
      for (ValueId v = 0; v < p_.size(); ++v) {
        if (p_[v].op == Op::store) changed |= delay_store(v);
      }
    }
  }
  bool delay_store(ValueId v) {
    int at = kernel_[index(v)];
    for (ValueId l = 0; l < p_.size(); ++l) {
      bool same = p_[l].op == Op::load && p_[l].slot == p_[v].slot;
      if (same && !uses_[index(l)].empty()) at = std::max(at, *uses_[index(l)].rbegin());
    }
    if (at == kernel_[index(v)]) return false;
    kernel_[index(v)] = at;
    for_each_operand(p_[v], [&](ValueId o) {
      if (is_element(o)) uses_[index(o)].insert(at);
    });
    return true;
  }

  // Returns the store from which later kernels can read `v` back, if every later use is for a store with
  // the same predicate. Where the predicate is false, the buffer still holds the old value.
  ValueId forwarding_store(ValueId v) const {
    for (ValueId s = 0; s < p_.size(); ++s) {
      const Inst& store = p_[s];
      if (store.op != Op::store || store.operands[0] != v) continue;
      const Buffer& buffer = p_.buffers[static_cast<size_t>(store.slot)];
      bool ok = kernel_[index(s)] == kernel_[index(v)] && buffer.at == p_[v].type.at &&
                buffer.is_of_all();
      for (int k : uses_[index(v)]) {
        if (k > kernel_[index(s)]) ok &= only_feeds(v, k, store.predicate);
      }
      if (ok) return s;
    }
    return kNoValue;
  }
  bool only_feeds(ValueId v, int kernel, ValueId predicate) const {
    for (ValueId u = v + 1; u < p_.size(); ++u) {
      bool uses = false;
      for_each_operand(p_[u], [&](ValueId o) { uses |= o == v; });
      if (!uses || !is_work(u) || kernel_[index(u)] != kernel) continue;
      if (is_element_reduction(p_, u)) return false;
      if (p_[u].op == Op::store) {
        if (p_[u].predicate != predicate) return false;
      } else {
        // A value computed from v must stay inside this kernel and only feed such stores.
        if (uses_[index(u)].empty()) continue;  // unused
        if (*uses_[index(u)].rbegin() != kernel || !only_feeds(u, kernel, predicate)) return false;
      }
    }
    return true;
  }

  // Decides which values cross kernels, and by which array.
  void find_crossings() {
    std::vector<int> free_after;  // [scratch] last kernel that fetches from it
    std::vector<ValueId> crossing;
    for (ValueId v = 0; v < p_.size(); ++v) {
      bool computed = is_element(v) && is_work(v) && p_[v].op != Op::store;
      if (computed && !uses_[index(v)].empty() && *uses_[index(v)].rbegin() > kernel_[index(v)]) {
        crossing.push_back(v);
      }
    }
    std::stable_sort(crossing.begin(), crossing.end(),
                     [&](ValueId a, ValueId b) { return kernel_[index(a)] < kernel_[index(b)]; });
    for (ValueId v : crossing) {
      ValueId store = forwarding_store(v);
      if (store != kNoValue) {
        crossings_[v] = {v, -1, p_[store].slot};
        continue;
      }
      int born = kernel_[index(v)];
      int32_t slot = 0;
      auto count = static_cast<int32_t>(s_.scratch.size());
      // A per-square value is fetched with each row of the square, so its own kernel must not overwrite the
      // array.
      int last_fetch = born - (ordered_rows(p_[v].type.at) > 0 ? 1 : 0);
      while (slot < count && (!(s_.scratch[static_cast<size_t>(slot)] == p_[v].type) ||
                              free_after[static_cast<size_t>(slot)] > last_fetch)) {
        ++slot;
      }
      if (slot == count) {
        s_.scratch.push_back(p_[v].type);
        free_after.push_back(0);
      }
      free_after[static_cast<size_t>(slot)] = *uses_[index(v)].rbegin();
      crossings_[v] = {v, slot, -1};
    }
  }

  void build() {
    for (int k = 0; k < kernel_count_; ++k) {
      PhaseRoots roots;
      for (ValueId v = 0; v < p_.size(); ++v) {
        bool here = is_work(v) && kernel_[index(v)] == k;
        if (here && p_[v].op == Op::store) roots.stores.push_back(v);
        if (here && is_folded(p_[v])) roots.reductions.push_back(v);
        bool behind = is_rollup(v) && kernel_[index(v)] == k + 1;
        if (behind) roots.rollups.push_back(v);
        auto it = crossings_.find(v);
        if (it == crossings_.end()) continue;
        if (here && it->second.scratch >= 0) roots.keeps.push_back(it->second);
        if (kernel_[index(v)] < k) roots.fetchable.push_back(it->second);
      }
      s_.kernels.push_back({fmt::format("{}_{}", p_.name, names_[static_cast<size_t>(k)]),
                            static_cast<int32_t>(s_.phases.size()), 1});
      s_.phases.push_back(make_phase(p_, names_[static_cast<size_t>(k)], roots));
    }
    // In the classic pipeline, the scale update and the counts are a kernel of their own.
    bool named = static_cast<int>(names_.size()) > kernel_count_ && !names_.back().empty();
    s_.kernels.push_back({fmt::format("{}_{}", p_.name, named ? names_.back() : "finish"),
                          static_cast<int32_t>(s_.phases.size()), 0});
  }

  Schedule& s_;
  const Program& p_;
  std::vector<int> kernel_;
  std::vector<std::set<int>> uses_;
  std::vector<std::string> names_;  // names of kernels
  int kernel_count_ = 0;
  std::map<ValueId, Crossing> crossings_;
};

}  // namespace

void add_stages(Schedule& schedule) { Stages(schedule).run(); }

}  // namespace stepfuse
