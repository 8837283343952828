// Computes the bounds of a code table, in the order in which a nearest code is searched. Knows the plan.
#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "compiler/plan/plan.hpp"
#include "ir/formats/code_table.hpp"

namespace stepfuse::plan {
namespace {

std::vector<float> search_tree(std::vector<float> bounds) {
  size_t nodes = std::bit_ceil(bounds.size() + 1);
  bounds.resize(nodes - 1, std::numeric_limits<float>::max());
  std::vector<float> tree(nodes);
  for (size_t k = 1; k < nodes; ++k) {
    size_t level = std::bit_floor(k);
    size_t step = nodes / level;  // distance between the bounds of the level
    tree[k] = bounds[(k - level) * step + step / 2 - 1];
  }
  return tree;
}

}  // namespace

void fill_bounds(Table* table) {
  std::vector<float>& bounds = table->bounds;
  bounds = table_bounds(table->values);
  table->guess = guess_of(bounds);
  if (!table->guess) {
    bounds = search_tree(std::move(bounds));
    return;
  }
  bounds.insert(bounds.begin(), std::numeric_limits<float>::lowest());
  bounds.resize(std::bit_ceil(bounds.size()), std::numeric_limits<float>::max());
}

}  // namespace stepfuse::plan
