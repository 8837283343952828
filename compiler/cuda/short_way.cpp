// What of a body's code is needed for tiles that lie inside of the chunk. Knows the plan.
#include "compiler/cuda/state.hpp"

namespace stepfuse::cuda {
namespace {

const plan::Inst* made_by(const plan::Body& body, Id v, Op op) {
  for (const plan::Inst& inst : body.code) {
    if (inst.value == v && inst.op == op) return &inst;
  }
  return nullptr;
}

// The value whose finiteness is all that the reduction asks for; kNone if it asks for something else.
Id finite_check(const Emission& e, const plan::Body& body, const plan::Combine& c) {
  if (e.plan.reduction(c.reduction).op != Op::reduce_any) return kNone;
  const plan::Inst* no = made_by(body, c.operand, Op::logical_not);
  const plan::Inst* finite = no != nullptr ? made_by(body, no->operands[0], Op::isfinite) : nullptr;
  return finite != nullptr && finite->in == DType::f32 ? finite->operands[0] : kNone;
}

}  // namespace

ShortWay short_way_of(const Emission& e, const plan::Body& body) {
  constexpr size_t kShortCode = 16;
  ShortWay way;
  way.exists = !body.reductions.empty() && body.stores.empty() && body.unit == 1 &&
               body.code.size() <= kShortCode;
  if (!way.exists) return way;
  for (const plan::Combine& c : body.reductions) {
    Id checked = finite_check(e, body, c);
    if (checked != kNone) way.finite_checks[c.operand] = checked;
    way.values.insert(checked != kNone ? checked : c.operand);
  }
  for (auto inst = body.code.rbegin(); inst != body.code.rend(); ++inst) {
    if (!way.values.contains(inst->value)) continue;
    for_each_operand(*inst, [&](Id o) { way.values.insert(o); });
  }
  return way;
}

}  // namespace stepfuse::cuda
