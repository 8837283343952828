// Builds the program that a pass returns. Knows ir.
#include "compiler/passes/rewriter.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace stepfuse {

Rewriter::Rewriter(const Program& from) : from_(from), map_(from.insts.size(), kNoValue) {
  to_.name = from.name;
  to_.buffers = from.buffers;
  to_.states = from.states;
  to_.tables = from.tables;
  to_.args = from.args;
  to_.stages = from.stages;
  to_.insts.reserve(from.insts.size());
  to_.names.reserve(from.insts.size());
  to_.locs.reserve(from.insts.size());
}

Inst Rewriter::remapped(ValueId old) const {
  Inst inst = from_[old];
  for (int i = 0; i < inst.arity(); ++i) {
    ValueId& operand = inst.operands[static_cast<size_t>(i)];
    operand = (*this)[operand];
  }
  if (inst.predicate != kNoValue) inst.predicate = (*this)[inst.predicate];
  return inst;
}

ValueId Rewriter::emit(ValueId old, const Inst& inst) {
  auto i = static_cast<size_t>(old);
  append(inst, from_.names[i], from_.locs[i]);
  return map_[i] = to_.size() - 1;
}

void Rewriter::replace(ValueId old, ValueId value) {
  check_internal(to_[value].type == from_[old].type,
                 "a value is replaced by one of a different type");
  map_[static_cast<size_t>(old)] = value;
}

ValueId Rewriter::constant(ValueId near, DType dtype, Bits literal) {
  auto taken = [&](const std::string& n) {
    return fresh_names_.contains(n) ||
           std::find(from_.names.begin(), from_.names.end(), n) != from_.names.end();
  };
  std::string base = from_.names[static_cast<size_t>(near)];
  std::string name;
  for (int i = 0; name.empty() || taken(name); ++i) name = fmt::format("{}.c{}", base, i);
  fresh_names_.insert(name);
  append({.op = Op::constant, .type = {dtype, per::step}, .literal = literal}, name,
         from_.locs[static_cast<size_t>(near)]);
  return to_.size() - 1;
}

void Rewriter::append(const Inst& inst, std::string name, SourceLoc loc) {
  to_.insts.push_back(inst);
  to_.names.push_back(std::move(name));
  to_.locs.push_back(loc);
}

}  // namespace stepfuse
