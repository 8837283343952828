// The space of recipe steps, and the program and data of one of its points. Knows the recipes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/cuda/options.hpp"
#include "tests/ptx/device_runner.hpp"
#include "tests/support/random_data.hpp"
#include "tests/support/recipe_options.hpp"

namespace stepfuse::testing {

// Factors that may change the bits: recipe, every recipe option, layout, inputs. Factors that must
// not: mode (the three forms and the split phase), args, arch, blocks, parts of chunks, the
// emitter's options.
std::vector<Factor> recipe_factors();

using Point = std::map<std::string, std::string>;
// Rows that together contain every pair of values of two factors, except pairs that contradict each
// other or are refused by name.
struct Covering {
  std::vector<Factor> factors;
  CoveringSet set;
  Point point(const Row& row) const { return point_of(factors, row); }
  size_t factor(std::string_view name) const;  // its index
};
Covering covering_rows();

// False if options contradict each other, or compiled steps do not support them.
bool is_possible(const Point& point);

// Throws Error{compile} for options that compiled steps do not support.
Variant variant_of(const Program& program, const Point& point);
// In proportion to the time that NVRTC takes for the point's kernel.
double compile_cost(const Point& point);
// Throws Error{usage} for options that the point's arch does not support.
CudaOptions options_of(const Point& point);

struct RecipeCase {
  Program program;
  TestLayout layout;
  TestData data;
};
RecipeCase recipe_case(const Point& point, uint64_t seed);

// Compares one or more steps on the machine with the interpreter; "" or the first difference.
struct Verdict {
  std::string fault;
  ptx::Counters counters;
};
Verdict compare_on_machine(const Point& point, uint64_t data_seed,
                           const std::vector<uint64_t>& seeds, int steps);

}  // namespace stepfuse::testing
