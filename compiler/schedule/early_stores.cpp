// Moves stores of the fused form from the last phase to earlier ones if that saves bytes. Knows ir.
//
// Storing in the earlier phase and reading the buffer back may move fewer bytes than computing the value again, as it
// does for LAMB's moments. The `unfused` form instead keeps such values in scratch arrays, as classic pipelines do: it
// is the baseline, and a way to bisect.
#include "compiler/schedule/early_stores.hpp"

#include <algorithm>
#include <set>

namespace stepfuse {
namespace {

size_t index(ValueId v) { return static_cast<size_t>(v); }

class EarlyStores {
 public:
  EarlyStores(const Program& p, std::span<const Signature> signatures,
              std::vector<PhaseRoots>& roots)
      : p_(p), signatures_(signatures), roots_(roots) {}

  void run() {
    std::vector<int> level = reduction_levels(p_);
    for (size_t phase = 0; phase + 1 < roots_.size(); ++phase) {
      std::vector<ValueId> can;
      for (ValueId s : roots_.back().stores) {
        bool known = level[index(s)] <= static_cast<int>(phase);
        // A later phase reads the value back, so all tensors must have the buffer.
        bool of_all = p_.buffers[static_cast<size_t>(p_[s].slot)].is_of_all();
        if (known && of_all && is_tile(p_[p_[s].operands[0]].type.at)) can.push_back(s);
      }
      move_to(phase, can);
    }
  }

 private:
  using Bytes = std::vector<double>;  // [signature] per element

  // Moving a single store rarely pays when stores share inputs. So move all candidates first, then move
  // back those that save no bytes.
  void move_to(size_t phase, std::vector<ValueId> stores) {
    if (stores.empty()) return;
    std::vector<PhaseRoots> moved = with(phase, stores);
    for (ValueId wrong = fault(moved, phase); wrong != kNoValue; wrong = fault(moved, phase)) {
      std::erase(stores, wrong);
      moved = with(phase, stores);
    }
    Bytes before = bytes(roots_), after = bytes(moved);
    for (ValueId s : std::vector<ValueId>(stores)) {
      std::vector<ValueId> others = stores;
      std::erase(others, s);
      std::vector<PhaseRoots> fewer = with(phase, others);
      if (fault(fewer, phase) != kNoValue) continue;
      Bytes without = bytes(fewer);
      if (is_more(without, after)) continue;
      stores = std::move(others);
      moved = std::move(fewer);
      after = std::move(without);
    }
    if (after != before && !is_more(after, before)) roots_ = std::move(moved);
  }

  static bool is_more(const Bytes& a, const Bytes& b) {
    for (size_t s = 0; s < a.size(); ++s) {
      if (a[s] > b[s]) return true;
    }
    return false;
  }

  std::vector<PhaseRoots> with(size_t phase, const std::vector<ValueId>& stores) const {
    std::vector<PhaseRoots> roots = roots_;
    for (ValueId s : stores) {
      std::erase(roots.back().stores, s);
      roots[phase].stores.push_back(s);
      ValueId value = p_[s].operands[0];
      for (size_t later = phase + 1; later < roots.size(); ++later) {
        std::vector<Crossing>& known = roots[later].fetchable;
        bool twice = std::any_of(known.begin(), known.end(),
                                 [&](const Crossing& k) { return k.value == value; });
        if (!twice) known.push_back({.value = value, .buffer = p_[s].slot});
      }
    }
    return roots;
  }

  // Returns a store that `phase` cannot make because a later phase needs the buffer's old contents.
  ValueId fault(const std::vector<PhaseRoots>& roots, size_t phase) const {
    for (size_t later = phase + 1; later < roots.size(); ++later) {
      Phase made = make_phase(p_, "", roots[later]);
      for (ValueId s : roots[phase].stores) {
        ValueId predicate = p_[s].predicate;
        bool always = predicate == kNoValue;
        if (!can_follow(made.body, s, always || predicate == made.guard) ||
            !can_follow(made.otherwise, s, always)) {
          return s;
        }
      }
    }
    return kNoValue;
  }
  bool can_follow(const Body& body, ValueId store, bool was_done) const {
    int32_t buffer = p_[store].slot;
    bool loads = std::any_of(body.code.begin(), body.code.end(), [&](ValueId v) {
      return p_[v].op == Op::load && p_[v].slot == buffer;
    });
    bool fetches = std::any_of(body.fetches.begin(), body.fetches.end(),
                               [&](const Crossing& k) { return k.buffer == buffer; });
    return !loads && (was_done || !fetches);
  }

  // Returns the bytes that the phases load and store if their guards hold.
  Bytes bytes(const std::vector<PhaseRoots>& roots) const {
    Bytes sums(signatures_.size(), 0);
    for (const PhaseRoots& r : roots) {
      Body body = make_phase(p_, "", r).body;
      std::set<int32_t> loaded;
      for (const Crossing& k : body.fetches) loaded.insert(k.buffer);
      for (ValueId v : body.code) {
        if (p_[v].op == Op::load) loaded.insert(p_[v].slot);
      }
      for (int32_t buffer : loaded) add(buffer, &sums);
      for (const StoreAction& a : body.stores) add(p_[a.store].slot, &sums);
    }
    return sums;
  }
  void add(int32_t buffer, Bytes* sums) const {
    const Buffer& b = p_.buffers[static_cast<size_t>(buffer)];
    double share = 1.0 / b.at.rows / b.at.columns;
    for (size_t s = 0; s < signatures_.size(); ++s) {
      DType type = signatures_[s][static_cast<size_t>(buffer)];
      (*sums)[s] += static_cast<double>(size_of(type)) * share;
    }
  }

  const Program& p_;
  std::span<const Signature> signatures_;
  std::vector<PhaseRoots>& roots_;
};

}  // namespace

void store_early(const Program& program, std::span<const Signature> signatures,
                 std::vector<PhaseRoots>& roots) {
  EarlyStores(program, signatures, roots).run();
}

}  // namespace stepfuse
