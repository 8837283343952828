// Checks the internal consistency of a Schedule; a violation is a bug of ours. Knows ir and fmt.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include <stepfuse/printer.hpp>

#include "compiler/schedule/analysis.hpp"
#include "compiler/schedule/schedule.hpp"

namespace stepfuse {
namespace {

class ScheduleVerifier {
 public:
  explicit ScheduleVerifier(const Schedule& s) : s_(s), p_(s.program) {}

  void run() {
    for (const Phase& phase : s_.phases) {
      check_uniform(phase.uniform);
      check_body(phase, phase.body);
      if (phase.guard != kNoValue) check_body(phase, phase.otherwise);
      for (const StoreAction& a : phase.body.stores) {
        require(stored_.insert(p_[a.store].slot).second, a.store, "is stored by two phases");
      }
      for (ValueId r : phase.body.reductions) {
        require(reduced_.insert(r).second, r, "is reduced by two phases");
      }
      for (const Crossing& k : phase.body.keeps) kept_[k.scratch] = k.value;
      for (const Rollup& rollup : phase.rollups) check_rollup(rollup);
    }
    check_uniform(s_.finish.uniform);
    for (ValueId v = 0; v < p_.size(); ++v) {
      if (p_[v].op == Op::store) require(stored_.contains(p_[v].slot), v, "is never done");
      if (is_folded(p_[v])) require(reduced_.contains(v), v, "is never done");
    }
    check_kernels();
  }

 private:
  using Names = std::set<int32_t>;

  void require(bool ok, ValueId v, std::string_view what) const {
    if (!ok)
      internal_error(fmt::format("schedule of @{}: `{}` {}", p_.name, print_inst(p_, v), what));
  }

  void check_uniform(const UniformCode& code) const {
    std::set<ValueId> known;
    for (const Level<ValueId>& level : code) {
      for (ValueId v : level.code) {
        if (is_folded(p_[v])) {
          require(reduced_.contains(v), v, "is used before it is made");
        } else {
          for_each_operand(p_[v], [&](ValueId o) {
            require(known.contains(o), v, "uses a coarser value that is not computed");
          });
        }
        known.insert(v);
      }
    }
  }

  void check_rollup(const Rollup& rollup) {
    check_uniform(rollup.uniform);
    for (ValueId r : rollup.reductions) {
      ValueId operand = p_[r].operands[0];
      require(p_[operand].type.at == rollup.from, r, "is in the rollup of a different granularity");
      const std::vector<ValueId>& known = rollup.uniform.of(rollup.from);
      require(std::find(known.begin(), known.end(), operand) != known.end(), r,
              "reduces what its rollup does not compute");
    }
    for (ValueId r : rollup.reductions) {
      require(reduced_.insert(r).second, r, "is reduced twice");
    }
  }

  void check_body(const Phase& phase, const Body& body) const {
    std::set<ValueId> known;
    for (const Level<ValueId>& level : phase.uniform)
      known.insert(level.code.begin(), level.code.end());
    for (const Crossing& k : body.fetches) {
      bool in_scratch =
          k.scratch >= 0 && kept_.contains(k.scratch) && kept_.at(k.scratch) == k.value;
      bool in_buffer = k.scratch < 0 && stored_.contains(k.buffer);
      require(in_scratch || in_buffer, k.value, "is fetched, but nobody kept it");
      known.insert(k.value);
    }
    auto need = [&](ValueId user, ValueId v) {
      require(v == kNoValue || known.contains(v), user, "uses a value that is not computed");
    };
    for (ValueId v : body.code) {
      if (p_[v].op == Op::load) {
        require(!stored_.contains(p_[v].slot), v, "loads a buffer after it was stored");
      }
      if (is_folded(p_[v])) {
        require(reduced_.contains(v), v, "is used before it is made");
      } else {
        for_each_operand(p_[v], [&](ValueId o) { need(v, o); });
      }
      known.insert(v);
    }
    for (ValueId r : body.reductions) need(r, p_[r].operands[0]);
    for (const StoreAction& a : body.stores) {
      need(a.store, p_[a.store].operands[0]);
      need(a.store, a.predicate);
    }
    for (const Crossing& k : body.keeps) need(k.value, k.value);
  }

  void check_kernels() const {
    int32_t next = 0;
    for (const Kernel& k : s_.kernels) {
      check_internal(k.first_phase == next, "kernels do not follow each other");
      next += k.phase_count;
    }
    check_internal(next == static_cast<int32_t>(s_.phases.size()), "a phase is in no kernel");
    check_internal(!s_.kernels.empty(), "a schedule without a kernel");
  }

  const Schedule& s_;
  const Program& p_;
  Names stored_;                     // buffers stored so far
  std::set<ValueId> reduced_;        // reductions made so far
  std::map<int32_t, ValueId> kept_;  // scratch -> the value that it holds
};

}  // namespace

void verify_schedule(const Schedule& schedule) { ScheduleVerifier(schedule).run(); }

}  // namespace stepfuse
