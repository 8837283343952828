// Errors of floats in units of their last place. Knows only std.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace stepfuse::testing {

using Wide = long double;

// How far `got` is off, in units of the last place that the type has there.
template <class T>
double ulps_off(T got, Wide want) {
  using Limits = std::numeric_limits<T>;
  constexpr double kWrong = HUGE_VAL;
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : kWrong;
  // Half a unit above the largest number is what rounds to infinity.
  Wide beyond =
      std::ldexp(Wide{1} - std::ldexp(Wide{1}, -Limits::digits - 1), Limits::max_exponent);
  if (std::isinf(got)) return std::fabs(want) >= beyond && (want < 0) == (got < 0) ? 0 : kWrong;
  int exponent = 0;
  std::frexp(want, &exponent);
  int last = std::max(exponent, Limits::min_exponent) - Limits::digits;
  return static_cast<double>(std::fabs(std::ldexp(static_cast<Wide>(got) - want, -last)));
}

}  // namespace stepfuse::testing
