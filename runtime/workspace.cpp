// Lays out the step's own memory. Knows the schedule and the tables.
#include "runtime/workspace.hpp"

#include <algorithm>

namespace stepfuse {
namespace {

constexpr size_t kAlignment = 64;

size_t scratch_size(const Schedule& s, Type type) {
  size_t bytes = 1;
  for (size_t i = 0; i < s.signatures.size(); ++i) {
    bytes = std::max(bytes, size_of(s.resolve(type, i)));
  }
  return bytes;
}

}  // namespace

size_t member_count(Domain domain, const Layout& layout) {
  switch (domain) {
    case Domain::step:
      return 1;
    case Domain::group:
      return static_cast<size_t>(layout.group_count());
    case Domain::tensor:
      return layout.size();
    case Domain::element:
      return layout.element_count();
  }
  internal_error("bad Domain");
}

WorkspacePlan plan_workspace(const Schedule& s, const Layout& layout, const StepTables& tables) {
  WorkspacePlan plan;
  auto take = [&](size_t bytes) {
    size_t at = plan.bytes;
    plan.bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  };
  for (const State& state : s.program.states) {
    size_t count = member_count(state.type.domain, layout);
    plan.states.push_back(state.shared ? WorkspacePlan::npos
                                       : take(count * size_of(state.type.dtype)));
  }
  for (ValueId r : s.reductions) {
    const Type& t = s.program[r].type;
    plan.slots.push_back(take(tables.chunks.size() * size_of(t.dtype)));
    plan.results.push_back(take(member_count(t.domain, layout) * size_of(t.dtype)));
  }
  plan.scalars = take(s.program.insts.size() * sizeof(uint64_t));
  size_t step_args = 0, group_args = 0;
  for (const Arg& a : s.program.args) ++(a.type.domain == Domain::group ? group_args : step_args);
  size_t words = step_args + group_args * static_cast<size_t>(layout.group_count());
  plan.args_bytes = words * sizeof(uint64_t);
  plan.args = take(plan.args_bytes);
  plan.passed_args = take(words > abi::kInlineArgs ? plan.args_bytes : 0);
  for (const Type& t : s.scratch)
    plan.scratch.push_back(take(tables.scratch_elements * scratch_size(s, t)));
  return plan;
}

}  // namespace stepfuse
