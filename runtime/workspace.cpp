// Lays out the step's own memory. Knows the schedule and the tables.
#include "runtime/workspace.hpp"

#include <algorithm>

#include "compiler/schedule/analysis.hpp"

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

size_t member_count(Domain domain, size_t group_count, size_t tensor_count) {
  switch (domain) {
    case Domain::step:
      return 1;
    case Domain::group:
      return group_count;
    case Domain::tensor:
      return tensor_count;
    case Domain::element:
      break;
  }
  internal_error("bad Domain");
}

size_t member_count(Domain domain, const Layout& layout) {
  if (domain == Domain::element) return layout.element_count();
  return member_count(domain, static_cast<size_t>(layout.group_count()), layout.size());
}

// Over elements, and of the first level; what is rolled up from them is made after the exchange.
std::vector<size_t> find_partials(const Schedule& s) {
  std::vector<int> level = reduction_levels(s.program);
  std::vector<size_t> out;
  for (size_t i = 0; i < s.reductions.size(); ++i) {
    ValueId r = s.reductions[i];
    bool first = level[static_cast<size_t>(r)] == 1;
    if (first && is_element_reduction(s.program, r)) out.push_back(i);
  }
  return out;
}

// What ranks exchange between phases stands in one block, without gaps between values of one type.
void place_partials(const Schedule& s, const Layout& layout, WorkspacePlan& plan) {
  auto type = [&](size_t i) -> const Type& { return s.program[s.reductions[i]].type; };
  std::stable_sort(plan.partials.begin(), plan.partials.end(), [&](size_t a, size_t b) {
    return (type(a).dtype == DType::f32) > (type(b).dtype == DType::f32);
  });
  plan.partials_at = plan.bytes;
  for (size_t i : plan.partials) {
    size_t size = size_of(type(i).dtype);
    size_t at = (plan.partials_bytes + size - 1) / size * size;
    plan.results[i] = plan.partials_at + at;
    plan.partials_bytes = at + member_count(type(i).domain, layout) * size;
  }
  plan.bytes += (plan.partials_bytes + kAlignment - 1) / kAlignment * kAlignment;
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
    Domain from = s.program[s.program[r].operands[0]].type.domain;
    size_t values = from == Domain::element ? tables.chunks.size() : member_count(from, layout);
    plan.slots.push_back(take(values * size_of(t.dtype)));
    plan.results.push_back(WorkspacePlan::npos);
  }
  plan.partials = find_partials(s);
  for (size_t i = 0; i < s.reductions.size(); ++i) {
    const Type& t = s.program[s.reductions[i]].type;
    bool is_partial =
        std::find(plan.partials.begin(), plan.partials.end(), i) != plan.partials.end();
    if (is_partial) continue;
    plan.results[i] = take(member_count(t.domain, layout) * size_of(t.dtype));
  }
  place_partials(s, layout, plan);
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
