// Pairwise covering sets: few rows in which every two values of two factors stand together. Knows
// only std.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace stepfuse::testing {

struct Factor {
  std::string name;
  std::vector<std::string> values;  // the first is the default
};

using Row = std::vector<int>;  // [factor] index of its value

struct CoveringSet {
  std::vector<Row> rows;
  int covered = 0;  // pairs of values
  // Pairs that no row was found for: values that contradict each other.
  std::vector<std::string> contradictions;
};

// `valid` tells which rows may be; the row of defaults is one. The same set for the same arguments.
CoveringSet pairwise_covering_set(const std::vector<Factor>& factors,
                                  const std::function<bool(const Row&)>& valid, uint64_t seed);

}  // namespace stepfuse::testing
