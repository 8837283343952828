// Pass: evaluates elementwise ops on constants. Knows ir.
#include "compiler/passes/passes.hpp"
#include "compiler/passes/rewriter.hpp"
#include "ir/semantics/fp_env.hpp"
#include "ir/semantics/semantics.hpp"

namespace stepfuse {
namespace {

bool is_foldable(const Program& p, const Inst& inst) {
  // The result of a cast to a bound type depends on the signature.
  if (!is_elementwise(inst.op) || inst.type.dtype == DType::bound) return false;
  for (int i = 0; i < inst.arity(); ++i) {
    if (p[inst.operands[static_cast<size_t>(i)]].op != Op::constant) return false;
  }
  return true;
}

Bits evaluate(const Program& p, const Inst& inst) {
  auto operand = [&](size_t i) -> const Inst& { return p[inst.operands[i]]; };
  auto literal = [&](size_t i) {
    return static_cast<int>(i) < inst.arity() ? operand(i).literal : Bits{};
  };
  Bits result;
  if (inst.op == Op::powi) {
    result =
        sem::evaluate_powi(operand(0).type.dtype, operand(1).type.dtype, literal(0), literal(1));
  } else {
    DType in = operand(inst.op == Op::select ? 1 : 0).type.dtype;
    result = sem::evaluate(inst.op, in, inst.type.dtype, literal(0), literal(1), literal(2));
  }
  // Machines differ in the NaN that an operation makes, but the text must not.
  return canonical_nan(result, inst.type.dtype);
}

}  // namespace

Program fold_constants(const Program& program) {
  FpEnvGuard guard;
  Rewriter r(program);
  for (ValueId v = 0; v < program.size(); ++v) {
    Inst inst = r.remapped(v);
    if (is_foldable(r.program(), inst)) {
      inst = {.op = Op::constant, .type = inst.type, .literal = evaluate(r.program(), inst)};
    }
    r.emit(v, inst);
  }
  return r.finish();
}

}  // namespace stepfuse
