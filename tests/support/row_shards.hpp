// A tensor that is cut into shards of whole rows. Knows the public API.
#pragma once

#include <cstddef>
#include <vector>

#include <stepfuse/stepfuse.hpp>

namespace stepfuse::testing {

// Returns a layout with one shard of tensor "w" between each two adjacent `cuts`, which are numbers of rows. The first
// is 0, and the last is the number of rows of the tensor.
inline Layout row_shards(const std::vector<size_t>& cuts, size_t columns) {
  Layout layout;
  for (size_t k = 0; k + 1 < cuts.size(); ++k) {
    layout.add({.name = "w",
                .elements = (cuts[k + 1] - cuts[k]) * columns,
                .offset = cuts[k] * columns,
                .full_elements = cuts.back() * columns,
                .columns = columns});
  }
  return layout;
}

}  // namespace stepfuse::testing
