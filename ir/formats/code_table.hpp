// What code tables mean: the value of a code, and the code of a value. Knows std.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stepfuse {

// The value of a code; below the first one and above the last it is theirs.
float table_value(std::span<const float> values, int32_t code);

// The code of the largest value that is not above x, or the next one from the middle between the two on:
// where x - value >= (next - value) * 0.5, each operation rounded to f32. Below the first value, and of
// NaN, it is 0.
int32_t nearest_code(std::span<const float> values, float x);

// The smallest numbers that codes 1, 2 … are nearest to: as many bounds as are not above x make its code.
// Adjusts the floating-point mode by itself.
std::vector<float> table_bounds(std::span<const float> values);

}  // namespace stepfuse
