// Computes the cells of a table's bounds. Knows std.
#include "compiler/llvm/cells.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace stepfuse::llvm {
namespace {

constexpr uint32_t kSign = 0x80000000U;
constexpr uint32_t kSmallestNormal = 0x00800000U;
constexpr size_t kMostCodes = 256;
constexpr size_t kMostEntries = 4096;
constexpr int kFirstShift = 22;  // a bound's bits, shifted by 9, must be a positive number
constexpr int kLastShift = 12;

uint32_t bits(float v) { return std::bit_cast<uint32_t>(v); }

// Returns the first magnitude behind a change of code: a number equal to a bound has the higher code.
uint32_t change_at(float bound) { return (bits(bound) & ~kSign) + (std::signbit(bound) ? 1U : 0U); }

std::vector<uint32_t> changes_of(std::span<const float> bounds, bool negative) {
  std::vector<uint32_t> changes;
  for (float b : bounds) {
    if (std::signbit(b) == negative) changes.push_back(change_at(b));
  }
  if (negative) std::reverse(changes.begin(), changes.end());
  return changes;
}

// Whether no two changes are in one cell.
bool are_apart(std::span<const uint32_t> changes, int shift) {
  auto in_one = [&](uint32_t a, uint32_t b) { return a >> shift == b >> shift; };
  return std::adjacent_find(changes.begin(), changes.end(), in_one) == changes.end();
}

}  // namespace

std::optional<CodeCells> cells_of(std::span<const float> bounds) {
  if (bounds.empty() || bounds.size() >= kMostCodes) return {};
  CodeCells cells;
  cells.low = std::nextafter(bounds.front(), -std::numeric_limits<float>::infinity());
  cells.high = bounds.back();
  std::vector<uint32_t> falling = changes_of(bounds, true);
  std::vector<uint32_t> rising = changes_of(bounds, false);
  cells.both_signs = !falling.empty();
  uint32_t least = ~kSign;
  uint32_t most = std::max(bits(cells.low) & ~kSign, bits(cells.high) & ~kSign);
  for (const std::vector<uint32_t>* changes : {&falling, &rising}) {
    if (!changes->empty()) least = std::min(least, changes->front());
  }
  if (least <= kSmallestNormal || most >= bits(std::numeric_limits<float>::max())) return {};
  cells.shift = kFirstShift;
  while (!are_apart(falling, cells.shift) || !are_apart(rising, cells.shift)) {
    if (--cells.shift < kLastShift) return {};
  }
  uint32_t before = (least - 1) >> cells.shift;
  cells.first = before << cells.shift;
  cells.count = (most >> cells.shift) - before + 1;
  if (!cells.both_signs) cells.low = std::bit_cast<float>(cells.first);
  if (cells.count * (cells.both_signs ? 2 : 1) > kMostEntries) return {};
  auto add = [&](const std::vector<uint32_t>& changes, bool negative) {
    auto change = changes.begin();
    auto code = static_cast<int32_t>(falling.size());
    for (uint32_t cell = before; cell < before + cells.count; ++cell) {
      uint32_t start = cell << cells.shift;
      uint32_t last = (1U << cells.shift) - 1;  // last offset with the code of the cell's start
      int32_t begins = code;
      if (change != changes.end() && *change >> cells.shift == cell) {
        if (*change == start) begins += negative ? -1 : 1;
        if (*change > start) last = *change - start - 1;
        code += negative ? -1 : 1;
        ++change;
      }
      int32_t higher = (begins + (negative ? 0 : 1)) & 255;
      cells.entries.push_back(static_cast<int32_t>(last << 9) | 256 | higher);
    }
  };
  add(rising, false);
  if (cells.both_signs) add(falling, true);
  return cells;
}

int32_t code_in(const CodeCells& cells, float x) {
  float above = x > cells.low ? x : cells.low;
  float held = above < cells.high ? above : cells.high;
  uint32_t size = std::max(bits(held) & ~kSign, cells.first);
  int32_t sign = std::signbit(held) ? -1 : 0;
  uint32_t cell = (size - cells.first) >> cells.shift;
  int32_t entry = cells.entries[cell + (sign < 0 ? cells.count : 0)];
  auto rest = static_cast<int32_t>((size & ((1U << cells.shift) - 1)) << 9);
  int32_t is_below = entry > rest ? -1 : 0;
  return (entry + (is_below ^ sign)) & 255;
}

}  // namespace stepfuse::llvm
