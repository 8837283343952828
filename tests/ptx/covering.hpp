// Rows of choices in which every two values of different factors meet. Knows only std.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace stepfuse::testing {

struct Factor {
  std::string name;
  std::vector<std::string> values;  // the first one is the plain one
};

// One value of each factor, as indices.
using Choice = std::vector<size_t>;

struct Covering {
  std::vector<Choice> rows;
  size_t pairs = 0;       // that some possible row has
  size_t impossible = 0;  // for which no possible row was found
};

// `possible` says which rows there are at all. The same rows for the same seed.
Covering cover_pairs(const std::vector<Factor>& factors,
                     const std::function<bool(const Choice&)>& possible, uint64_t seed);

}  // namespace stepfuse::testing
