// Pairwise covering sets: few rows that together contain every pair of values of two factors. Knows
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
  std::vector<Row> rows;  // sorted by the number of pairs that they add
  int covered = 0;        // pairs of values
  size_t usual = 0;       // the first `usual` rows have every value and nine of ten of these pairs
  // Pairs without a row: values that contradict each other.
  std::vector<std::string> contradictions;
};

// `valid` tells which rows are allowed; the row of defaults is. The same arguments give the same
// set.
CoveringSet pairwise_covering_set(const std::vector<Factor>& factors,
                                  const std::function<bool(const Row&)>& valid, uint64_t seed);

// The rows that a test runs: the usual ones, or in a long run all.
std::vector<Row> rows_to_run(const CoveringSet& set);
// Fewer, for tests that compile a kernel for each row: cheap rows that together have every value and this share of the
// pairs, or in a long run all. `cost` is positive, in any unit.
std::vector<Row> cheap_rows(const CoveringSet& set, const std::function<double(const Row&)>& cost,
                            double share);
size_t pairs_in(const std::vector<Row>& rows);  // number of pairs of values

// Runs `check` for cases 0 … count - 1 on threads and returns its complaints and exceptions; ""
// means no fault.
std::vector<std::string> faults_of(size_t count, const std::function<std::string(size_t)>& check);

}  // namespace stepfuse::testing
