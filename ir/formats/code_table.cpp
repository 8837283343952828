// Looks up and searches code tables, and computes the bounds that a search needs. Knows std.
#include "ir/formats/code_table.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ir/semantics/fp_env.hpp"

namespace stepfuse {
namespace {

// Returns an integer that sorts like the float.
int64_t place_of(float v) {
  auto magnitude = static_cast<int64_t>(std::bit_cast<uint32_t>(v) & 0x7fffffffU);
  return std::signbit(v) ? -magnitude : magnitude;
}
float at_place(int64_t place) {
  auto magnitude = std::bit_cast<float>(static_cast<uint32_t>(place < 0 ? -place : place));
  return place < 0 ? -magnitude : magnitude;
}

bool is_nearer_to_next(float x, float value, float next) {
  return x - value >= (next - value) * 0.5F;
}

}  // namespace

float table_value(std::span<const float> values, int32_t code) {
  int32_t last = static_cast<int32_t>(values.size()) - 1;
  return values[static_cast<size_t>(std::clamp(code, 0, last))];
}

int32_t nearest_code(std::span<const float> values, float x) {
  auto above = std::upper_bound(values.begin(), values.end(), x);
  if (std::isnan(x) || above == values.begin()) return 0;
  auto code = static_cast<int32_t>(above - values.begin()) - 1;
  return above != values.end() && is_nearer_to_next(x, above[-1], *above) ? code + 1 : code;
}

std::vector<float> table_bounds(std::span<const float> values) {
  FpEnvGuard guard;
  std::vector<float> bounds;
  for (size_t i = 1; i < values.size(); ++i) {
    int64_t low = place_of(values[i - 1]);
    int64_t high = place_of(values[i]);  // which has its own code
    while (low < high) {
      int64_t middle = low + (high - low) / 2;
      bool up = is_nearer_to_next(at_place(middle), values[i - 1], values[i]);
      (up ? high : low) = up ? middle : middle + 1;
    }
    bounds.push_back(at_place(high));
  }
  return bounds;
}

}  // namespace stepfuse
