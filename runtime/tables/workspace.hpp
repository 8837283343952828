// The step's own memory as one block: what is where in it. Knows the plan and the tables.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/plan/plan.hpp"
#include "runtime/tables/tables.hpp"

namespace stepfuse {

// Offsets in bytes from the block's start; arrays are 64-byte aligned, so that no two of them share
// a cache line.
struct WorkspacePlan {
  std::vector<size_t> states;  // [state]; shared states live with their scaler and have npos
  std::vector<size_t>
      slots;  // [reduction], a value per chunk, or per member of its operand's domain
  std::vector<size_t> results;  // [reduction], one value per member of its domain
  // Reductions over elements of the first level, in the order in which their results stand one
  // behind the other: those of f32 first.
  std::vector<size_t> partials;
  size_t partials_at = 0;
  size_t partials_bytes = 0;
  size_t scalars = 0;      // [value], 8 bytes each
  size_t args = 0;         // argument block of set_args(), of args_bytes
  size_t passed_args = 0;  // and of a run whose arguments do not fit into a launch
  size_t args_bytes = 0;
  std::vector<size_t> scratch;  // [scratch array]
  size_t bytes = 0;             // of the whole block
  static constexpr size_t npos = ~size_t{0};
};

// Values of a state, a result or an array of partial results of this granularity.
size_t member_count(Granularity at, const Layout& layout);
size_t member_count(Granularity at, const StepTables& tables);
// Values that a reduction folds.
size_t slot_count(const plan::Reduction& reduction, const StepTables& tables);

WorkspacePlan plan_workspace(const KernelPlan& kernels, const StepTables& tables);

}  // namespace stepfuse
