// Lays out the step's own memory. Knows the plan and the tables.
#include "runtime/tables/workspace.hpp"

#include <algorithm>

namespace stepfuse {
namespace {

constexpr size_t kAlignment = 64;

// Whether ranks may exchange the reduction's result. A result per row, column or tile is whole on the rank that
// has these elements, and values at the same position of two ranks are unrelated.
bool is_exchanged(const plan::Reduction& r) { return r.first_level && !splits_tensor(r.to); }

// Places the values that ranks exchange between phases in one block, without gaps between values of one
// type.
void place_partials(const KernelPlan& kernels, const StepTables& tables, WorkspacePlan& plan) {
  auto is_f32 = [&](size_t i) { return kernels.reductions[i].dtype == DType::f32; };
  for (size_t i = 0; i < kernels.reductions.size(); ++i) {
    if (is_exchanged(kernels.reductions[i])) plan.partials.push_back(i);
  }
  std::stable_sort(plan.partials.begin(), plan.partials.end(),
                   [&](size_t a, size_t b) { return is_f32(a) > is_f32(b); });
  plan.partials_at = plan.bytes;
  for (size_t i : plan.partials) {
    const plan::Reduction& r = kernels.reductions[i];
    size_t size = size_of(r.dtype);
    size_t at = (plan.partials_bytes + size - 1) / size * size;
    plan.results[i] = plan.partials_at + at;
    plan.partials_bytes = at + member_count(r.to, tables) * size;
  }
  plan.bytes += (plan.partials_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

size_t member_count(Granularity g, const Layout& layout) {
  if (g == per::step) return 1;
  if (g == per::group) return static_cast<size_t>(layout.group_count());
  if (g == per::tensor) return layout.size();
  if (g == per::element) return layout.element_count();
  size_t count = 0;
  for (const TensorSpec& t : layout.tensors())
    count += tile_count(g, shape_of(t.elements, t.column_count()));
  return count;
}

size_t member_count(Granularity g, const StepTables& tables) {
  if (g == per::step) return 1;
  if (g == per::group) return tables.group_count();
  if (g == per::tensor) return tables.tensors.size();
  if (g == per::piece) return tables.chunks.size();
  size_t count = 0;
  for (const abi::Tensor& t : tables.tensors) count += tile_count(g, shape_of(t.size, t.columns));
  return count;
}

size_t slot_count(const plan::Reduction& r, const StepTables& tables) {
  return r.partials ? member_count(*r.partials, tables) : 0;
}

WorkspacePlan plan_workspace(const KernelPlan& kernels, const StepTables& tables) {
  WorkspacePlan plan;
  auto take = [&](size_t bytes) {
    size_t at = plan.bytes;
    plan.bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  };
  for (const plan::State& s : kernels.states) {
    plan.states.push_back(s.shared ? WorkspacePlan::npos
                                   : take(member_count(s.at, tables) * size_of(s.dtype)));
  }
  for (const plan::Reduction& r : kernels.reductions) {
    plan.slots.push_back(take(slot_count(r, tables) * size_of(r.dtype)));
    plan.results.push_back(WorkspacePlan::npos);
  }
  for (size_t i = 0; i < kernels.reductions.size(); ++i) {
    const plan::Reduction& r = kernels.reductions[i];
    if (!is_exchanged(r)) plan.results[i] = take(member_count(r.to, tables) * size_of(r.dtype));
  }
  place_partials(kernels, tables, plan);
  plan.scalars = take(kernels.values.size() * sizeof(uint64_t));
  size_t words = kernels.args.words(tables.group_count(), tables.tensors.size());
  plan.args_bytes = words * sizeof(uint64_t);
  plan.args = take(plan.args_bytes);
  plan.passed_args = take(words > abi::kInlineArgs ? plan.args_bytes : 0);
  for (const plan::Array& a : kernels.arrays) {
    if (a.scratch()) plan.scratch.push_back(take(tables.scratch_elements * a.max_bytes));
  }
  return plan;
}

}  // namespace stepfuse
