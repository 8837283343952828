// Pass: removes values that no effect needs. Knows ir.
#include "compiler/passes/passes.hpp"
#include "compiler/passes/rewriter.hpp"

namespace stepfuse {

Program remove_dead(const Program& program) {
  std::vector<bool> live(program.insts.size());
  for (ValueId v = program.size() - 1; v >= 0; --v) {
    const Inst& inst = program[v];
    // An argument is part of the step's interface, even if it is unused.
    if (is_effect(inst.op) || inst.op == Op::arg) live[static_cast<size_t>(v)] = true;
    if (!live[static_cast<size_t>(v)]) continue;
    for_each_operand(inst, [&](ValueId operand) { live[static_cast<size_t>(operand)] = true; });
  }
  Rewriter r(program);
  for (ValueId v = 0; v < program.size(); ++v) {
    if (live[static_cast<size_t>(v)]) r.keep(v);
  }
  return r.finish();
}

}  // namespace stepfuse
