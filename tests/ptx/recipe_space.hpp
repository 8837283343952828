// What a recipe's step can differ in, and the program and data of one point of that space. Knows
// the recipes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/differential/pairwise.hpp"
#include "tests/differential/random_data.hpp"
#include "tests/ptx/device_runner.hpp"

namespace stepfuse::testing {

// recipe, every recipe option, form, layout, inputs, args: what the bits may depend on.
std::vector<Factor> program_factors();
// arch, blocks, threads' interleaving: what they may not depend on.
std::vector<Factor> machine_factors();

using Point = std::map<std::string, std::string>;
Point point_of(const std::vector<Factor>& factors, const Row& row);
std::string describe(const Point& point);  // what is not plain

// Throws Error{usage} for options that contradict each other.
Program program_of(const Point& point);
// Throws Error{compile} for what compiled steps do not have.
Schedule schedule_of(const Program& program, const Point& point);

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
