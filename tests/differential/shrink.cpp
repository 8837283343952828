// Makes a failing program small, one change at a time. Knows ir and the passes' rewriter.
#include "tests/differential/shrink.hpp"

#include <optional>
#include <vector>

#include "compiler/passes/passes.hpp"
#include "compiler/passes/rewriter.hpp"
#include "ir/program/verifier.hpp"

namespace stepfuse::testing {
namespace {

bool stands_for(const Type& other, const Type& type) {
  return other == type ||
         (other.dtype == type.dtype && other.dtype != DType::bound && other.at != type.at &&
          broadcasts(other.at, type.at) && block_of(type.at) == 1);
}

// With the `left`-th value before it that broadcasts to `at` instead of that.
std::optional<Program> with_another(const Program& p, ValueId at, int left) {
  const Inst& target = p[at];
  if (is_effect(target.op) || target.op == Op::arg) return std::nullopt;
  ValueId other = at;
  while (left > 0 && --other >= 0) left -= stands_for(p[other].type, target.type) ? 1 : 0;
  if (other < 0) return std::nullopt;
  Program out = p;
  for (Inst& inst : out.insts) {
    for (ValueId& operand : inst.operands) operand = operand == at ? other : operand;
    if (inst.predicate == at) inst.predicate = other;
  }
  return remove_dead(out);
}

// One thing less at instruction `at`; `choice` numbers the ways, nothing when there is no more.
std::optional<Program> smaller(const Program& p, ValueId at, int choice) {
  const Inst& target = p[at];
  Rewriter r(p);
  for (ValueId v = 0; v < p.size(); ++v) {
    if (v != at) {
      r.keep(v);
      continue;
    }
    Inst inst = r.remapped(v);
    if (is_effect(inst.op)) {
      if (choice == 0) continue;  // without it
      if (choice > 1 || inst.predicate == kNoValue) return std::nullopt;
      inst.predicate = kNoValue;
      r.emit(v, inst);
      continue;
    }
    if (inst.op == Op::arg || choice > inst.arity()) return std::nullopt;
    if (choice < inst.arity()) {  // one of its operands instead
      ValueId operand = inst.operands[static_cast<size_t>(choice)];
      if (r.program()[operand].type == inst.type) {
        r.replace(v, operand);
      } else {
        r.keep(v);
      }
    } else if (inst.type.at == per::step && inst.op != Op::constant) {
      Inst one{.op = Op::constant, .type = target.type, .literal = Bits{1}};
      r.emit(v, one);
    } else {
      return std::nullopt;
    }
  }
  Program out = remove_dead(r.finish());
  // A report must be written; a state need not be.
  for (State& s : out.states) s.report = false;
  for (const Inst& inst : out.insts) {
    if (inst.op != Op::write) continue;
    auto slot = static_cast<size_t>(inst.slot);
    out.states[slot].report = p.states[slot].report;
  }
  return out;
}

// Without declarations that nothing uses; slots move up.
Program drop_unused(const Program& p) {
  Program out = p;
  std::vector<int32_t> buffers(p.buffers.size(), -1);
  std::vector<int32_t> states(p.states.size(), -1);
  std::vector<int32_t> tables(p.tables.size(), -1);
  std::vector<int32_t> stages(p.stages.size(), -1);
  for (const Inst& inst : p.insts) {
    if (inst.type.dtype == DType::bound) buffers[static_cast<size_t>(inst.type.buffer)] = 0;
    auto slot = static_cast<size_t>(inst.slot);
    if (inst.op == Op::load || inst.op == Op::store) buffers[slot] = 0;
    if (inst.op == Op::read || inst.op == Op::write) states[slot] = 0;
    if (reads_table(inst.op)) tables[slot] = 0;
    if (inst.op == Op::stage) stages[slot] = 0;
  }
  for (size_t i = 0; i < p.buffers.size(); ++i) {  // behind the buffers whose values they have
    const Buffer& b = p.buffers[i];
    if (b.order.any()) buffers[i] = buffers[static_cast<size_t>(b.arranges)];
  }
  auto compact = [](auto& list, std::vector<int32_t>& map) {
    size_t kept = 0;
    for (size_t i = 0; i < map.size(); ++i) {
      if (map[i] < 0) continue;
      map[i] = static_cast<int32_t>(kept);
      list[kept++] = list[i];
    }
    list.resize(kept);
  };
  compact(out.buffers, buffers);
  for (Buffer& b : out.buffers) {
    if (b.order.any()) b.arranges = buffers[static_cast<size_t>(b.arranges)];
  }
  compact(out.states, states);
  compact(out.tables, tables);
  compact(out.stages, stages);
  for (Inst& inst : out.insts) {
    if (inst.type.dtype == DType::bound) {
      inst.type.buffer = buffers[static_cast<size_t>(inst.type.buffer)];
    }
    auto slot = static_cast<size_t>(inst.slot);
    if (inst.op == Op::load || inst.op == Op::store) inst.slot = buffers[slot];
    if (inst.op == Op::read || inst.op == Op::write) inst.slot = states[slot];
    if (reads_table(inst.op)) inst.slot = tables[slot];
    if (inst.op == Op::stage) inst.slot = stages[slot];
  }
  return out;
}

}  // namespace

Program shrink(Program program, const std::function<bool(const Program&)>& fails) {
  auto accept = [&](std::optional<Program> candidate) {
    if (!candidate || *candidate == program || !find_violations(*candidate).empty()) return false;
    if (!fails(*candidate)) return false;
    program = std::move(*candidate);
    return true;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = 0; b < program.buffers.size(); ++b) {
      if (!program.buffers[b].order.any()) continue;
      Program candidate = program;
      candidate.buffers[b].order = {};
      candidate.buffers[b].arranges = -1;
      changed |= accept(std::move(candidate));
    }
    for (ValueId v = program.size() - 1; v >= 0; --v) {
      for (int choice = 0; choice <= 3 && v < program.size(); ++choice) {
        changed |= accept(smaller(program, v, choice));
      }
      for (int left = 1; left <= 3 && v < program.size(); ++left) {
        changed |= accept(with_another(program, v, left));
      }
    }
  }
  accept(drop_unused(program));
  return program;
}

}  // namespace stepfuse::testing
