// Finds shorter code for parts of a body: for tiles that lie inside of the chunk, for two roundings at
// once, and for divisions by one value. Knows the plan.
#include <algorithm>

#include "compiler/cuda/ops.hpp"
#include "compiler/cuda/state.hpp"

namespace stepfuse::cuda {
namespace {

const plan::Inst* made_by(const plan::Body& body, Id v, Op op) {
  for (const plan::Inst& inst : body.code) {
    if (inst.value == v && inst.op == op) return &inst;
  }
  return nullptr;
}

// Returns the value whose finiteness is all that the reduction needs; kNone if it needs anything else.
Id finite_check(const Emission& e, const plan::Body& body, const plan::Combine& c) {
  if (e.plan.reduction(c.reduction).op != Op::reduce_any) return kNone;
  const plan::Inst* no = made_by(body, c.operand, Op::logical_not);
  const plan::Inst* finite = no != nullptr ? made_by(body, no->operands[0], Op::isfinite) : nullptr;
  return finite != nullptr && finite->in == DType::f32 ? finite->operands[0] : kNone;
}

}  // namespace

FastPath fast_path_of(const Emission& e, const plan::Body& body) {
  constexpr size_t kShortCode = 16;
  FastPath way;
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

bool is_masked(const KernelPlan& plan, const plan::Store& s) {
  return s.predicate != kNone && plan.is_element(s.predicate);
}

Id rounded_in_pairs(const plan::Body& body, const plan::Store& s) {
  DType t = body.arrays[static_cast<size_t>(s.array)].dtype;
  if (body.unit > 1 || !is_low_precision(t) || !has_instructions(t)) return kNone;
  if (s.from == DType::f32) return s.value;
  const plan::Inst* cast = made_by(body, s.value, Op::cast);
  return cast != nullptr && cast->in == DType::f32 && cast->out == t ? cast->operands[0] : kNone;
}

Quotient quotient_of(const KernelPlan& plan, const plan::Body& body, const plan::Inst& inst) {
  Id d = inst.operands[1];
  if (inst.op != Op::div || inst.out != DType::f32) return Quotient::plain;
  if (plan.is_element(d) && block_of(plan[d].at) == 1) return Quotient::plain;
  const plan::Inst* cast = made_by(body, inst.operands[0], Op::cast);
  bool whole = cast != nullptr && is_integer(cast->in);
  float divisor = plan[d].is_constant ? plan[d].literal.f32() : 0;
  constexpr float kMost = 1U << 31;
  bool near = whole && divisor >= 1 / kMost && divisor <= kMost;
  return near ? Quotient::near : Quotient::may_be_far;
}

bool divides_by_shared(const KernelPlan& plan, const plan::Body& body, const plan::Pass& pass) {
  bool once = !pass.reductions.empty() ||
              std::any_of(pass.stores.begin(), pass.stores.end(),
                          [&](size_t s) { return is_masked(plan, body.stores[s]); });
  std::span<const plan::Inst> code = body.code_of(pass);
  return pass.block == 1 && !once && std::any_of(code.begin(), code.end(), [&](const auto& inst) {
           return quotient_of(plan, body, inst) == Quotient::may_be_far;
         });
}

}  // namespace stepfuse::cuda
