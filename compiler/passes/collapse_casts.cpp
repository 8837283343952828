// Pass: removes casts that change nothing, and joins chains that round at most once. Knows ir.
#include <optional>

#include "compiler/passes/passes.hpp"
#include "compiler/passes/rewriter.hpp"

namespace stepfuse {
namespace {

// Whether every value of `from` is a value of `to`. A further cast from `to` is then a cast from `from`.
bool is_exact(DType from, DType to) {
  if (is_low_precision(from)) return to == DType::f32;
  switch (from) {
    case DType::boolean:
      return true;  // false and true become 0 and 1
    case DType::bound:
      return to == DType::f32;
    case DType::f32:
      return to == DType::f64;
    case DType::i32:
      return to == DType::i64 || to == DType::f64;
    default:
      return false;
  }
}

// Low-precision and bound values are only cast from and to f32, and narrow integers only from and to i32.
bool is_legal(Type from, Type to) {
  auto only_with = [](DType t) -> std::optional<DType> {
    if (is_low_precision(t) || t == DType::bound) return DType::f32;
    if (is_narrow_integer(t)) return DType::i32;
    return std::nullopt;
  };
  return only_with(from.dtype).value_or(to.dtype) == to.dtype &&
         only_with(to.dtype).value_or(from.dtype) == from.dtype;
}

}  // namespace

Program collapse_casts(const Program& program) {
  Rewriter r(program);
  const Program& p = r.program();
  for (ValueId v = 0; v < program.size(); ++v) {
    Inst inst = r.remapped(v);
    // Go back from the cast's operand to the first value of the chain that it could be cast from.
    while (inst.op == Op::cast) {
      const Inst& inner = p[inst.operands[0]];
      if (inner.type == inst.type || inner.op != Op::cast) break;
      ValueId source = inner.operands[0];
      Type from = p[source].type;
      bool back = from == inst.type;
      if (!is_exact(from.dtype, inner.type.dtype) || !(back || is_legal(from, inst.type))) break;
      inst.operands[0] = source;
      if (back) break;
    }
    if (inst.op == Op::cast && p[inst.operands[0]].type == inst.type) {
      r.replace(v, inst.operands[0]);
    } else {
      r.emit(v, inst);
    }
  }
  return r.finish();
}

}  // namespace stepfuse
