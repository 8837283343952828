// Finds the nearest code if a processor loads faster than it permutes: the numbers are divided into cells,
// and each cell has an entry. Knows std.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace stepfuse::llvm {

// x is clamped to low … high (NaN becomes low), and its magnitude's bits to at least `first`. The bits
// above `shift`, counted from those of `first`, are the cell's index. If bounds have both signs, as many
// cells for negative numbers follow. In a cell the code changes at most once. An entry is bound << 9 | 256
// | code (8 bits). If the bits below `shift` are above `bound`, a positive number has that code and a
// negative one the code below. Otherwise it is the other way round.
struct CodeCells {
  float low = 0, high = 0;
  uint32_t first = 0;
  int shift = 0;
  uint32_t count = 0;  // per sign
  bool both_signs = false;
  std::vector<int32_t> entries;
};

// Returns the cells of ascending bounds; nothing if they would fill too much of an L1 cache.
std::optional<CodeCells> cells_of(std::span<const float> bounds);

// Returns the code of x by the operations that Ops::in_cell emits for vectors.
int32_t code_in(const CodeCells& cells, float x);

}  // namespace stepfuse::llvm
