// The arguments that an Args has, and the position of each. Knows the public API and the plan's layout of
// arguments.
#pragma once

#include <stepfuse/stepfuse.hpp>

#include "compiler/plan/arg_layout.hpp"
#include "ir/recipes/arg_bounds.hpp"
#include "runtime/process/hidden.hpp"

namespace stepfuse {

// Returns the values that an argument can have. Arguments of recipes have bounds.
ArgBounds bounds_of(const Program& program, const Arg& arg);
// Returns a value's bits as an argument. Throws Error{usage} if the argument cannot have it.
uint64_t word_of(double value, const ArgBounds& bounds, DType dtype, std::string_view name,
                 std::string_view step_name);

struct STEPFUSE_HIDDEN Args::Shape {
  std::string step_name;
  std::vector<std::string> names;
  std::vector<DType> dtypes;
  std::vector<ArgBounds> bounds;
  ArgLayout layout;
  int group_count = 1;
  int tensor_count = 0;

  // With `checked`, values must lie within the bounds of a recipe's arguments.
  Shape(const Program& program, const Layout& tensors, bool checked);
  ArgId find(std::string_view name) const;  // throws Error{usage}
  uint64_t convert(ArgId arg, double value) const;
  // Returns how many values an argument has: one, or one per group or tensor.
  int values(size_t arg) const {
    Granularity d = layout.places[arg].at;
    return d == per::step ? 1 : d == per::group ? group_count : tensor_count;
  }
};

}  // namespace stepfuse
