// The archs that tests compile kernels for. Knows only std.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/support/long_run.hpp"

namespace stepfuse::testing {

// For the k-th kernel of a test: 90, which most budgets are for, and one of the others in turn, or in a long run all.
inline std::vector<int> archs_for(size_t k) {
  if (is_long_run()) return {80, 90, 100, 120};
  constexpr int kOthers[] = {80, 100, 120};
  return {90, kOthers[k % 3]};
}

}  // namespace stepfuse::testing
