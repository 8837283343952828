// Per-column and per-square values in bodies: their arrays, and how a row is combined into them. Knows ir
// and the plan.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <stepfuse/program.hpp>

#include "compiler/names.hpp"
#include "compiler/plan/plan.hpp"

namespace stepfuse::plan {

// In bodies, per-column states and results are arrays, and a reduction to columns is a load, an op and a
// store. So is a reduction to squares, whose operand is the row's own part: a reduction to blocks.
class Lines {
 public:
  explicit Lines(const Program& program) : p_(program) {}

  // Adds arrays and values at the end of the plan's lists. `reductions` maps each reduction to its number.
  void declare(const std::map<ValueId, int32_t>& reductions, UniqueNames* names, KernelPlan* plan);

  // Returns the array that holds a per-column or per-square value; -1 if the value is computed.
  int32_t array(ValueId v) const;
  // Whether it is a reduction to columns or squares. Its array then holds the result so far until the phase
  // ends.
  bool combines(ValueId reduction) const;
  int32_t so_far(ValueId reduction) const { return reductions_.at(reduction).so_far; }
  // Combines its operand with the contents of array `at` of the body.
  void combine(ValueId reduction, int32_t at, Body* body) const;

 private:
  struct Reduced {
    int32_t result, so_far;  // arrays
    Id row;                  // for squares: the current row's part
    Id before, combined;     // without and with the current row
  };
  void declare_columns(const std::map<ValueId, int32_t>& reductions, UniqueNames* names,
                       KernelPlan* plan);
  void declare_squares(const std::map<ValueId, int32_t>& reductions, UniqueNames* names,
                       KernelPlan* plan);
  Id add_value(ValueId v, std::string_view what, UniqueNames* names, KernelPlan* plan) const;

  const Program& p_;
  std::map<int32_t, int32_t> states_;  // per-column state -> its array
  std::map<ValueId, Reduced> reductions_;
};

}  // namespace stepfuse::plan
