// The layout of the step's own memory, which is one block. Knows the plan and the tables.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/plan/plan.hpp"
#include "runtime/tables/tables.hpp"

namespace stepfuse {

// Offsets are in bytes from the block's start. Arrays are 64-byte aligned, so that no two of them share a
// cache line.
struct WorkspacePlan {
  std::vector<size_t> states;  // [state]; shared states live with their scaler and have npos
  std::vector<size_t>
      slots;  // [reduction] one value per chunk, or per member of its operand's granularity
  std::vector<size_t> results;  // [reduction] one value per member of its granularity
  // The first-level reductions over elements to values per step, group or tensor. They are in the order of
  // their results in the block: first those of f32.
  std::vector<size_t> partials;
  size_t partials_at = 0;
  size_t partials_bytes = 0;
  size_t scalars = 0;      // [value], 8 bytes each
  size_t args = 0;         // argument block of set_args(), args_bytes long
  size_t passed_args = 0;  // arguments of a run that do not fit into a launch
  size_t args_bytes = 0;
  std::vector<size_t> scratch;  // [scratch array]
  size_t bytes = 0;             // of the block, without a backend's tables
  // Returns where a backend's own tables start in the block.
  size_t tables_offset() const { return (bytes + 255) / 256 * 256; }
  static constexpr size_t npos = ~size_t{0};
};

// Returns the number of values that a state, a result or an array of partial results has at this
// granularity.
size_t member_count(Granularity at, const Layout& layout);
size_t member_count(Granularity at, const StepTables& tables);
// Returns the number of values that a reduction folds.
size_t slot_count(const plan::Reduction& reduction, const StepTables& tables);

WorkspacePlan plan_workspace(const KernelPlan& kernels, const StepTables& tables);

}  // namespace stepfuse
