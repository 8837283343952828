// How the nearest code of a table is found without a search: by a line for each range of
// magnitudes. Knows std.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace stepfuse::plan {

// x is held within low … high (NaN is low), and y = fma(|x|, scale, grain). The bits of y from
// `shift` on, modulo the number of lines, which is a power of two, are its line's number. u =
// fma(y, slope, offset) has the sign of x, and the whole part of center + u is x's code or one
// more, which x is below the first number of, then. A guess is made only if that was found true at
// both ends of each line and on both sides of each bound, and so everywhere, for all is rising.
struct CodeGuess {
  float low = 0, high = 0;
  float scale = 1, grain = 0;
  float center = 0;
  int shift = 23;
  std::vector<float> slopes, offsets;
  friend bool operator==(const CodeGuess&, const CodeGuess&) = default;
};

// Returns the guess for rising bounds (ir/formats/code_table.hpp), or nothing if lines do not come near enough.
std::optional<CodeGuess> guess_of(std::span<const float> bounds);

// The code of x, or one more.
int32_t guessed(const CodeGuess& guess, float x);

}  // namespace stepfuse::plan
