// Finds the nearest code of a table without a search: one line per range of magnitudes gives it. Knows
// std.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace stepfuse::plan {

// x is clamped to low … high (NaN becomes low), and y = fma(|x|, scale, grain). The bits of y above
// `shift`, modulo the number of lines (a power of two), are the index of x's line. u = fma(y, slope,
// offset) has the sign of x. The integer part of center + u is x's code, or one more; x is then below the
// first number of that code. A guess is accepted only after a proof: this holds at both ends of each line
// and on both sides of each bound, and therefore everywhere, because code and guess ascend.
struct CodeGuess {
  float low = 0, high = 0;
  float scale = 1, grain = 0;
  float center = 0;
  int shift = 23;
  std::vector<float> slopes, offsets;
  friend bool operator==(const CodeGuess&, const CodeGuess&) = default;
};

// Returns a guess for ascending bounds (ir/formats/code_table.hpp), or nothing if lines are too far off.
std::optional<CodeGuess> guess_of(std::span<const float> bounds);

// Returns the code of x, or one more.
int32_t guessed(const CodeGuess& guess, float x);

}  // namespace stepfuse::plan
