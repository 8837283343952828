// The state writes at the end of a step. Knows the schedule, the kernel ABI, and the expression
// table.
//
// Everything is computed from the states before the step: tensor states are written first, for
// their code may read group and step states, then group states, then step states.
#include <iterator>

#include "compiler/llvm/members.hpp"
#include "compiler/llvm/phase.hpp"
#include "compiler/llvm/uniform.hpp"

namespace stepfuse::llvm {
namespace {

class FinishEmitter {
 public:
  FinishEmitter(const Schedule& schedule, Module& module)
      : p_(schedule.program),
        finish_(schedule.finish),
        u_(schedule, module, f_),
        ops_(module, f_, 1) {}

  std::string run() {
    u_.evaluate(finish_.uniform.step);
    // Every step write is decided before any state changes: the code above read all it needs.
    for (size_t i = std::size(kDomains); i-- > 0;) {
      Domain d = kDomains[i].domain;
      if (!writes_to(d)) continue;
      for_each_member(f_, u_, d, finish_.uniform, Absent::skip,
                      [&](const std::string& index) { write_all(d, index); });
    }
    f_.line("ret void");
    return f_.take("void @sf_finish(ptr %ctx) #0");
  }

 private:
  Domain domain_of(ValueId write) const {
    return p_.states[static_cast<size_t>(p_[write].slot)].type.domain;
  }
  bool writes_to(Domain d) const {
    for (ValueId w : finish_.writes) {
      if (domain_of(w) == d) return true;
    }
    return false;
  }

  void write_all(Domain d, const std::string& index) {
    for (ValueId w : finish_.writes) {
      if (domain_of(w) == d) write(p_[w], index);
    }
  }

  void write(const Inst& inst, const std::string& index) {
    auto slot = static_cast<size_t>(inst.slot);
    const State& state = p_.states[slot];
    std::string skip;
    if (inst.predicate != kNoValue) {
      std::string yes = f_.label("write");
      skip = f_.label("write.end");
      f_.branch(u_[inst.predicate], yes, skip);
      f_.block(yes);
    }
    DType t = state.type.dtype;
    ops_.store(t, u_[inst.operands[0]], u_.element(u_.states, slot, index, size_of(t), state.name));
    if (skip.empty()) return;
    f_.jump(skip);
    f_.block(skip);
  }

  const Program& p_;
  const Finish& finish_;
  Function f_;
  Uniform u_;
  Ops ops_;
};

}  // namespace

std::string emit_finish(const Schedule& schedule, Module& module) {
  return FinishEmitter(schedule, module).run();
}

}  // namespace stepfuse::llvm
