// Lowers per-column and per-square values of bodies. Knows ir and the plan.
//
// Column code is element code in a body, so it has no f64. A reduction to columns loads, combines and stores, one row
// of partial results per strip of 64 rows, so no emitter has a loop for it. One worker does all chunks of a strip that
// have the same columns, in the order of rows. The first row of a strip takes identities, so nothing is initialised. If
// a phase folds nothing along a row, a warp of a GPU takes 256 columns of all rows (KernelPlan::may_split_columns).
//
// Inside a body a square is a block of as many elements. Only the offset in its array differs: it is that of the
// square, which as many rows share. A reduction to squares combines rows one after the other in the result itself. A
// square's value is stored with each row by the same worker, or with the first row on a GPU, so a buffer of squares is
// not loaded in the phase that stores it.
#include "compiler/plan/lines.hpp"

#include <utility>

#include <fmt/format.h>

#include <stepfuse/printer.hpp>

#include "ir/semantics/reduction.hpp"

namespace stepfuse::plan {

void Lines::declare(const std::map<ValueId, int32_t>& reductions, UniqueNames* names,
                    KernelPlan* plan) {
  declare_columns(reductions, names, plan);
  declare_squares(reductions, names, plan);
}

void Lines::declare_columns(const std::map<ValueId, int32_t>& reductions, UniqueNames* names,
                            KernelPlan* plan) {
  using Owner = Array::Owner;
  auto add = [&](const std::string& name, std::string text, Owner owner, int32_t index,
                 Granularity at) {
    plan->arrays.push_back({.name = names->unique("k_" + name),
                            .text = std::move(text),
                            .owner = owner,
                            .index = index,
                            .at = at});
    return static_cast<int32_t>(plan->arrays.size() - 1);
  };
  for (size_t i = 0; i < p_.states.size(); ++i) {
    const stepfuse::State& s = p_.states[i];
    if (s.type.at != per::column) continue;
    auto index = static_cast<int32_t>(i);
    states_[index] = add(identifier(s.name), "@" + s.name, Owner::state, index, per::column);
  }
  for (const auto& [v, r] : reductions) {
    if (p_[v].type.at != per::column) continue;
    const std::string& given = p_.names[static_cast<size_t>(v)];
    std::string name = identifier(given);
    int32_t result = add(name, "%" + given, Owner::result, r, per::column);
    int32_t strips = add(name + "_strips", "strips of %" + given, Owner::partial, r, per::strip);
    Id before = add_value(v, "so_far", names, plan);
    reductions_[v] = {result, strips, kNone, before, add_value(v, "combined", names, plan)};
  }
}

void Lines::declare_squares(const std::map<ValueId, int32_t>& reductions, UniqueNames* names,
                            KernelPlan* plan) {
  for (const auto& [v, r] : reductions) {
    if (!is_tile(p_[v].type.at)) continue;
    const std::string& given = p_.names[static_cast<size_t>(v)];
    plan->arrays.push_back({.name = names->unique("q_" + identifier(given)),
                            .text = "%" + given,
                            .owner = Array::Owner::result,
                            .index = r,
                            .at = p_[v].type.at});
    auto array = static_cast<int32_t>(plan->arrays.size() - 1);
    Id row = add_value(v, "row", names, plan);
    Id before = add_value(v, "so_far", names, plan);
    reductions_[v] = {array, array, row, before, add_value(v, "combined", names, plan)};
  }
}

// Adds an element value that stands for a part of reduction `v`.
Id Lines::add_value(ValueId v, std::string_view what, UniqueNames* names, KernelPlan* plan) const {
  std::string name = identifier(p_.names[static_cast<size_t>(v)]);
  plan->values.push_back({.name = names->unique(fmt::format("e_{}_{}", name, what)),
                          .text = print_inst(p_, v),
                          .at = is_tile(p_[v].type.at) ? p_[v].type.at : per::element,
                          .dtype = p_[v].type.dtype});
  return static_cast<Id>(plan->values.size() - 1);
}

int32_t Lines::array(ValueId v) const {
  const stepfuse::Inst& inst = p_[v];
  if (combines(v)) return reductions_.at(v).result;
  if (inst.type.at != per::column || inst.op != Op::read) return -1;
  return states_.at(inst.slot);
}

bool Lines::combines(ValueId reduction) const {
  const stepfuse::Inst& inst = p_[reduction];
  return is_folded(inst) && ordered_rows(inst.type.at) > 0;
}

void Lines::combine(ValueId reduction, int32_t at, Body* body) const {
  const Reduced& r = reductions_.at(reduction);
  const stepfuse::Inst& inst = p_[reduction];
  DType t = inst.type.dtype;
  Id operand = inst.operands[0];
  if (r.row != kNone) {
    body->code.push_back(
        {.value = r.row, .op = inst.op, .in = t, .out = t, .operands = {operand, kNone, kNone}});
    operand = r.row;
  }
  body->code.push_back({.value = r.before, .op = Op::load, .in = t, .out = t, .index = at});
  body->code.push_back({.value = r.combined,
                        .op = reduction_combiner(inst.op),
                        .in = t,
                        .out = t,
                        .operands = {r.before, operand, kNone}});
  body->stores.push_back({at, r.combined, t, kNone, print_inst(p_, reduction)});
}

}  // namespace stepfuse::plan
