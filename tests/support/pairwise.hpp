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
  std::vector<Row> rows;  // what adds most pairs comes first
  int covered = 0;        // pairs of values
  size_t usual = 0;       // the first so many rows have every value and nine of ten of these pairs
  // Pairs that no row was found for: values that contradict each other.
  std::vector<std::string> contradictions;
};

// `valid` tells which rows may be; the row of defaults is one. The same set for the same arguments.
CoveringSet pairwise_covering_set(const std::vector<Factor>& factors,
                                  const std::function<bool(const Row&)>& valid, uint64_t seed);

// What a test runs of it: the usual rows, or in a long run all of them.
std::vector<Row> rows_to_run(const CoveringSet& set);

// What `check` finds wrong with case 0 … count - 1, or throws, by threads. "" is nothing.
std::vector<std::string> faults_of(size_t count, const std::function<std::string(size_t)>& check);

}  // namespace stepfuse::testing
