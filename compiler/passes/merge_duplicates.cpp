// Pass: keeps the first of several instructions that compute the same value. Knows ir.
#include <map>
#include <tuple>

#include "compiler/passes/passes.hpp"
#include "compiler/passes/rewriter.hpp"

namespace stepfuse {
namespace {

// Loads and reads see the contents before the step, so equal instructions have equal values.
using Key = std::tuple<Op, DType, Scope, int32_t, int32_t, int32_t, std::array<ValueId, 3>, int32_t,
                       uint64_t>;

bool is_commutative(Op op) {
  switch (op) {
    case Op::add:
    case Op::mul:
    case Op::min:
    case Op::max:
    case Op::eq:
    case Op::ne:
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
    case Op::fma:  // commutative in its first two operands
      return true;
    default:
      return false;
  }
}

Key key_of(const Inst& inst) {
  std::array<ValueId, 3> operands = inst.operands;
  if (is_commutative(inst.op) && operands[0] > operands[1]) std::swap(operands[0], operands[1]);
  const Type& t = inst.type;
  return {inst.op,  t.dtype,  t.at.scope, t.at.rows,       t.at.columns,
          t.buffer, operands, inst.slot,  inst.literal.raw};
}

}  // namespace

Program merge_duplicates(const Program& program) {
  Rewriter r(program);
  std::map<Key, ValueId> first;
  for (ValueId v = 0; v < program.size(); ++v) {
    Inst inst = r.remapped(v);
    if (is_effect(inst.op)) {
      r.emit(v, inst);
      continue;
    }
    Key key = key_of(inst);
    auto it = first.find(key);
    if (it != first.end()) {
      r.replace(v, it->second);
    } else {
      first.emplace(key, r.emit(v, inst));
    }
  }
  return r.finish();
}

}  // namespace stepfuse
