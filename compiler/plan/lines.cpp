// What bodies keep of columns and squares. Knows ir and the plan.
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
  using Kind = Array::Kind;
  auto add = [&](const std::string& name, std::string text, Kind kind, int32_t index) {
    plan->arrays.push_back({.name = names->unique("k_" + name),
                            .text = std::move(text),
                            .kind = kind,
                            .index = index});
    return static_cast<int32_t>(plan->arrays.size() - 1);
  };
  for (size_t i = 0; i < p_.states.size(); ++i) {
    const stepfuse::State& s = p_.states[i];
    if (s.type.domain != Domain::column) continue;
    auto index = static_cast<int32_t>(i);
    states_[index] = add(identifier(s.name), "@" + s.name, Kind::state, index);
  }
  for (const auto& [v, r] : reductions) {
    if (p_[v].type.domain != Domain::column) continue;
    const std::string& given = p_.names[static_cast<size_t>(v)];
    std::string name = identifier(given);
    int32_t result = add(name, "%" + given, Kind::result, r);
    int32_t strips = add(name + "_strips", "strips of %" + given, Kind::strips, r);
    Id before = add_value(v, "so_far", names, plan);
    reductions_[v] = {result, strips, kNone, before, add_value(v, "combined", names, plan)};
  }
}

void Lines::declare_squares(const std::map<ValueId, int32_t>& reductions, UniqueNames* names,
                            KernelPlan* plan) {
  for (const auto& [v, r] : reductions) {
    if (!reduces_squares(p_[v])) continue;
    const std::string& given = p_.names[static_cast<size_t>(v)];
    const Type& type = p_[v].type;
    plan->arrays.push_back({.name = names->unique("q_" + identifier(given)),
                            .text = "%" + given,
                            .kind = Array::Kind::squares,
                            .index = r,
                            .block = type.block,
                            .rows = type.rows});
    auto array = static_cast<int32_t>(plan->arrays.size() - 1);
    Id row = add_value(v, "row", names, plan);
    Id before = add_value(v, "so_far", names, plan);
    reductions_[v] = {array, array, row, before, add_value(v, "combined", names, plan)};
  }
}

// A value of elements that stands for a part of reduction `v`.
Id Lines::add_value(ValueId v, std::string_view what, UniqueNames* names, KernelPlan* plan) const {
  std::string name = identifier(p_.names[static_cast<size_t>(v)]);
  plan->values.push_back({.name = names->unique(fmt::format("e_{}_{}", name, what)),
                          .text = print_inst(p_, v),
                          .domain = Domain::element,
                          .dtype = p_[v].type.dtype,
                          .block = p_[v].type.block});
  return static_cast<Id>(plan->values.size() - 1);
}

int32_t Lines::array(ValueId v) const {
  const stepfuse::Inst& inst = p_[v];
  if (combines(v)) return reductions_.at(v).result;
  if (inst.type.domain != Domain::column || inst.op != Op::read) return -1;
  return states_.at(inst.slot);
}

bool Lines::combines(ValueId reduction) const {
  const stepfuse::Inst& inst = p_[reduction];
  return is_folded(inst) && (inst.type.domain == Domain::column || reduces_squares(inst));
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
