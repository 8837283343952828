// The recipe options as factors of a covering set, straight from the one table of them. Knows the
// recipes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <stepfuse/recipes.hpp>

#include "tests/support/pairwise.hpp"

namespace stepfuse::testing {

// "recipe", then every option; the value "" is "not given".
std::vector<Factor> recipe_option_factors();

using Point = std::map<std::string, std::string>;  // value by factor
Point point_of(const std::vector<Factor>& factors, const Row& row);
std::string describe(const Point& point);  // what is not plain

// Throws Error{usage} for options that contradict each other.
Program program_of(const Point& point);
// The same on a command line.
std::vector<std::string> words_of(const Point& point);

}  // namespace stepfuse::testing
