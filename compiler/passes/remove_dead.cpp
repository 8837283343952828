// Pass: removes values that no effect needs, except for one that makes reductions go row by row (has_rows). Knows ir.
#include <algorithm>

#include "compiler/passes/passes.hpp"
#include "compiler/passes/rewriter.hpp"

namespace stepfuse {
namespace {

// Returns the program without what neither its effects nor `kept` need.
Program with_needed(const Program& program, ValueId kept) {
  std::vector<bool> live(program.insts.size());
  for (ValueId v = program.size() - 1; v >= 0; --v) {
    const Inst& inst = program[v];
    // An argument is part of the step's interface, even if it is unused.
    bool is_root = is_effect(inst.op) || inst.op == Op::arg || v == kept;
    if (is_root) live[static_cast<size_t>(v)] = true;
    if (!live[static_cast<size_t>(v)]) continue;
    for_each_operand(inst, [&](ValueId operand) { live[static_cast<size_t>(operand)] = true; });
  }
  Rewriter r(program);
  for (ValueId v = 0; v < program.size(); ++v) {
    if (live[static_cast<size_t>(v)]) r.keep(v);
  }
  return r.finish();
}

}  // namespace

Program remove_dead(const Program& program) {
  Program needed = with_needed(program, kNoValue);
  if (has_rows(needed) || !has_rows(program)) return needed;
  auto first = std::find_if(program.insts.begin(), program.insts.end(),
                            [](const Inst& inst) { return needs_rows(inst.type.at); });
  return with_needed(program, static_cast<ValueId>(first - program.insts.begin()));
}

}  // namespace stepfuse
