// What a recipe's step can differ in, and the program and data of one point of that space. Knows
// the recipes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/cuda/options.hpp"
#include "tests/ptx/device_runner.hpp"
#include "tests/support/random_data.hpp"
#include "tests/support/recipe_options.hpp"

namespace stepfuse::testing {

// recipe, every recipe option, layout, inputs: what the bits may depend on; mode (the three forms and
// the split phase), args, arch, blocks, parts of chunks, the emitter's options: what they may not
// depend on.
std::vector<Factor> recipe_factors();

using Point = std::map<std::string, std::string>;
// Rows in which every two values of two factors stand together, unless they contradict each other or
// are refused by name.
struct Covering {
  std::vector<Factor> factors;
  CoveringSet set;
  Point point(const Row& row) const { return point_of(factors, row); }
  size_t factor(std::string_view name) const;  // its index
};
Covering covering_rows();

// False where options contradict each other, or compiled steps do not have it.
bool is_possible(const Point& point);

// Throws Error{compile} for what compiled steps do not have.
Variant variant_of(const Program& program, const Point& point);
// Throws Error{usage} for options that the point's arch does not have.
CudaOptions options_of(const Point& point);

struct RecipeCase {
  Program program;
  TestLayout layout;
  TestData data;
};
RecipeCase recipe_case(const Point& point, uint64_t seed);

// One or more steps on the machine against as many of the interpreter; "" or the first difference.
struct Verdict {
  std::string fault;
  ptx::Counters counters;
};
Verdict compare_on_machine(const Point& point, uint64_t data_seed,
                           const std::vector<uint64_t>& seeds, int steps);

}  // namespace stepfuse::testing
