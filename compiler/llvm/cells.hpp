// How the nearest code is found where a processor loads faster than it permutes: from the one cell
// of a range of numbers that it is in. Knows std.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace stepfuse::llvm {

// x is held within low … high (NaN is low), its magnitude's bits not below those of `first`. Above
// `shift` they are its cell's number, counted from first's; with bounds of both signs, negative
// numbers have as many cells behind the others. In a cell the code changes once at most. An entry
// is bound << 9 | 256 | code, `code` of 8 bits: where the bits below `shift` are above `bound`, a
// positive number has that code, a negative one the code before it; else the one before, and that.
struct CodeCells {
  float low = 0, high = 0;
  uint32_t first = 0;
  int shift = 0;
  uint32_t count = 0;  // of a sign
  bool both_signs = false;
  std::vector<int32_t> entries;
};

// Of rising bounds; nothing where that took more cells than an L1 cache should hold of them.
std::optional<CodeCells> cells_of(std::span<const float> bounds);

// The code of x, by what Ops::in_cell emits for vectors.
int32_t code_in(const CodeCells& cells, float x);

}  // namespace stepfuse::llvm
