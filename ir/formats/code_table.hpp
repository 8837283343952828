// The meaning of code tables: the value of a code, and the code of a value. Knows std.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stepfuse {

// Returns the value of a code. Codes below the first or above the last give that one's value.
float table_value(std::span<const float> values, int32_t code);

// Returns the code of the largest value v up to x, or the next code if x is in the upper half of the gap to
// the next value w: if x - v >= (w - v) * 0.5, with each operation rounded to f32. It is 0 below the first
// value, and for NaN.
int32_t nearest_code(std::span<const float> values, float x);

// Returns the smallest numbers with the codes 1, 2, …: x's code is the number of bounds up to x. Sets the
// floating-point mode that it needs.
std::vector<float> table_bounds(std::span<const float> values);

}  // namespace stepfuse
