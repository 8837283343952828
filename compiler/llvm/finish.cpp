// The state writes at the end of a step. Knows the plan, the kernel ABI, and the expression
// table.
//
// Everything is computed from the states before the step. Tensor states are written first, because their
// code may read group and step states; then group states, and then step states.
#include "compiler/llvm/members.hpp"
#include "compiler/llvm/phase.hpp"
#include "compiler/llvm/uniform.hpp"

namespace stepfuse::llvm {
namespace {

class FinishEmitter {
 public:
  FinishEmitter(const KernelPlan& plan, Module& module)
      : plan_(plan), u_(plan, module, f_), ops_(module, f_, 1) {}

  std::string run() {
    // All values for per-step writes are computed before any state changes.
    u_.evaluate(plan_.finish.step);
    const std::vector<plan::Writes>& blocks = plan_.finish.writes;
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      for_each_member(f_, u_, block->at, block->code, Absent::skip, [&](const std::string& index) {
        for (const plan::Write& w : block->writes) write(w, index);
      });
    }
    f_.line("ret void");
    return f_.take("void @sf_finish(ptr %ctx) #0");
  }

 private:
  void write(const plan::Write& w, const std::string& index) {
    auto store = [&] {
      f_.comment(w.text);
      DType t = plan_.state(w.state).dtype;
      ops_.store(t, u_[w.value],
                 u_.element(Uniform::Owner::state, w.state, index, size_of(t), "state"));
      f_.end_comment();
    };
    w.predicate == plan::kNone ? store() : f_.if_("write", u_[w.predicate], store);
  }

  const KernelPlan& plan_;
  Function f_;
  Uniform u_;
  Ops ops_;
};

}  // namespace

std::string emit_finish(const KernelPlan& plan, Module& module) {
  return FinishEmitter(plan, module).run();
}

}  // namespace stepfuse::llvm
