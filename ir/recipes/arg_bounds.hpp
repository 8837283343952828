// The values that arguments of recipes can have. Knows only std.
#pragma once

#include <limits>
#include <string>
#include <string_view>

namespace stepfuse {

// From `low` to `high`, and `also`. NaN is never in bounds. Without bounds every value is allowed.
struct ArgBounds {
  bool any = true;
  double low = 0;
  bool above_low = false;  // low itself is not allowed
  double high = std::numeric_limits<double>::infinity();
  bool below_high = false;
  double also = std::numeric_limits<double>::quiet_NaN();

  bool contain(double v) const {
    bool enough = above_low ? v > low : v >= low;
    bool little = below_high ? v < high : v <= high;
    return any || v == also || (enough && little);
  }
  std::string text() const;  // "above 0", "at least 0 and below 1"
};

// Returns the bounds by name, because a name means the same in all recipes. Unknown arguments have none.
ArgBounds arg_bounds(std::string_view name);

}  // namespace stepfuse
