// The samples' f16 conversions, over every f16 value, every midpoint between two, and its neighbours.
#include "samples/half.hpp"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

namespace {

// The value of an f16 pattern from the format's definition.
double value_of(uint32_t magnitude) {
  int exponent = static_cast<int>(magnitude >> 10U);
  int mantissa = static_cast<int>(magnitude & 0x3FFU);
  if (exponent == 0) return std::ldexp(mantissa, -24);
  return std::ldexp(1024 + mantissa, exponent - 25);
}

}  // namespace

TEST_CASE("every f16 value survives unpacking, rounding and packing") {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    auto pattern = static_cast<uint16_t>(h);
    float x = half::to_float(pattern);
    if ((h & 0x7FFFU) > 0x7C00U) {
      CHECK(std::isnan(x));
      CHECK(std::isnan(half::round(x)));
      CHECK((half::from_float(x) & 0x7FFFU) == 0x7FFFU);
      continue;
    }
    double expected = (h & 0x7FFFU) == 0x7C00U ? HUGE_VAL : value_of(h & 0x7FFFU);
    CHECK(static_cast<double>(x) == (h < 0x8000 ? expected : -expected));
    CHECK(half::from_float(x) == pattern);
    CHECK(std::bit_cast<uint32_t>(half::round(x)) == std::bit_cast<uint32_t>(x));
  }
}

TEST_CASE("between two f16 values the nearer one is taken, at a tie the even one") {
  for (uint32_t h = 0; h < 0x7C00; ++h) {
    // Above 65504 the next value would be 65536; what rounds to it is infinite.
    auto middle = static_cast<float>((value_of(h) + value_of(h + 1)) / 2);
    uint32_t even = h % 2 == 0 ? h : h + 1;
    CHECK(half::from_float(middle) == even);
    CHECK(half::from_float(-middle) == (even | 0x8000U));
    CHECK(half::from_float(std::nextafter(middle, 0.0F)) == h);
    CHECK(half::from_float(std::nextafter(middle, HUGE_VALF)) == h + 1);
    CHECK(half::round(middle) == half::to_float(static_cast<uint16_t>(even)));
  }
  CHECK(half::from_float(std::numeric_limits<float>::max()) == 0x7C00U);
  CHECK(half::from_float(std::numeric_limits<float>::denorm_min()) == 0);
  CHECK(half::from_float(-0.0F) == 0x8000U);
}
