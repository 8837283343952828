// Where each argument lies in an Args, and its shape. Knows the public API.
#pragma once

#include <stepfuse/stepfuse.hpp>

#include "ir/recipes/arg_bounds.hpp"
#include "runtime/hidden.hpp"

namespace stepfuse {

struct STEPFUSE_HIDDEN Args::Shape {
  struct Place {
    DType dtype = DType::f64;
    bool per_group = false;
    size_t index = 0;  // among the args of its domain
  };
  std::string step_name;
  std::vector<std::string> names;
  std::vector<Place> places;
  size_t step_count = 0;
  size_t group_args = 0;
  int group_count = 1;
  std::vector<ArgBounds> bounds;

  // `checked`: values have to be in the bounds that a recipe's arguments have.
  Shape(const Program& program, int groups, bool checked);
  ArgId find(std::string_view name) const;  // throws Error{usage}
  uint64_t convert(ArgId arg, double value) const;
};

}  // namespace stepfuse
