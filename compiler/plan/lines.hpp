// What bodies keep of columns and squares: their arrays, and how a row is combined into them. Knows
// ir and the plan.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <stepfuse/program.hpp>

#include "compiler/names.hpp"
#include "compiler/plan/plan.hpp"

namespace stepfuse::plan {

// A column's states and results stand in bodies as arrays, and a reduction to columns is a load, an
// op and a store. So is one to squares, of what the row at hand makes: a reduction to blocks.
class Lines {
 public:
  explicit Lines(const Program& program) : p_(program) {}

  // Their arrays and values are the plan's last ones. `reductions`: of each its number.
  void declare(const std::map<ValueId, int32_t>& reductions, UniqueNames* names, KernelPlan* plan);

  // The array in which a value of columns, or what is reduced to squares, stands; -1: it is computed.
  int32_t array(ValueId v) const;
  // Whether it is a reduction to columns or squares; then, the array in which it stands until its
  // phase ends.
  bool combines(ValueId reduction) const;
  int32_t so_far(ValueId reduction) const { return reductions_.at(reduction).so_far; }
  // Of its operand with what stands in array `at` of the body.
  void combine(ValueId reduction, int32_t at, Body* body) const;

 private:
  struct Reduced {
    int32_t result, so_far;  // arrays
    Id row;                  // of squares: what the row at hand makes
    Id before, combined;     // without and with it
  };
  void declare_columns(const std::map<ValueId, int32_t>& reductions, UniqueNames* names,
                       KernelPlan* plan);
  void declare_squares(const std::map<ValueId, int32_t>& reductions, UniqueNames* names,
                       KernelPlan* plan);
  Id add_value(ValueId v, std::string_view what, UniqueNames* names, KernelPlan* plan) const;

  const Program& p_;
  std::map<int32_t, int32_t> states_;  // of columns -> its array
  std::map<ValueId, Reduced> reductions_;
};

}  // namespace stepfuse::plan
