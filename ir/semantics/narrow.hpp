// Conversions between f32 and narrower floats, as the numerics contract defines them: round to nearest
// even, keep subnormals, map overflow to the format's highest value, and every NaN to one pattern, or to 0 if
// the format has none. Knows std and the table of dtypes.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include <stepfuse/types.hpp>

namespace stepfuse {

// The constants that both directions of a conversion use.
struct NarrowFormat {
  explicit constexpr NarrowFormat(DType t)
      : row(info(t)),
        shift(static_cast<uint32_t>(23 - row.fraction_bits)),
        rebias(static_cast<uint32_t>(127 - row.bias()) << 23) {}
  // The f32 bits of the smallest normal number. 0 if the type has f32's exponents: then its subnormals are
  // f32's subnormals with fewer digits.
  constexpr uint32_t smallest_normal() const { return rebias == 0 ? 0 : rebias + (1U << 23); }
  // The f32 bits of the power of two whose last place is the smallest subnormal.
  constexpr uint32_t subnormal_base() const {
    return static_cast<uint32_t>(127 + 24 - row.bias() - row.fraction_bits) << 23;
  }

  const DTypeInfo& row;
  uint32_t shift;   // difference in fraction bits
  uint32_t rebias;  // difference of the exponents' biases, as f32 bits
};

// The least number of f8e8m0, which has powers of two only and no 0: pattern 0 stands for it.
inline constexpr uint32_t kLeastPower = 0x00400000;

inline float widen(uint32_t bits, DType t) {
  if (t == DType::f8e8m0) {
    uint32_t power = std::max(bits << 23, kLeastPower);
    return std::bit_cast<float>(bits == info(t).nan ? 0x7fc00000U : power);
  }
  const NarrowFormat f(t);
  auto top = static_cast<uint32_t>(f.row.sign());
  uint32_t sign = (bits & top) << (31 - f.row.magnitude_bits());
  uint32_t magnitude = bits & (top - 1);
  uint32_t wide = magnitude << f.shift;
  if (magnitude > f.row.highest || (magnitude == f.row.highest && f.row.has_infinity())) {
    wide |= 0x7f800000U;
  } else if (f.rebias != 0 && wide < (1U << 23)) {  // a multiple of the smallest subnormal: exact
    float unit = std::bit_cast<float>(f.subnormal_base() - (23U << 23));
    wide = std::bit_cast<uint32_t>(static_cast<float>(magnitude) * unit);
  } else {
    wide += f.rebias;
  }
  return std::bit_cast<float>(sign | wide);
}

// Rounds a magnitude, given as f32 bits, as if exponents had no limit.
inline uint32_t round_magnitude(uint32_t f32, DType t) {
  // Takes the larger power halfway between two. Subnormal numbers above the first power take the second.
  if (t == DType::f8e8m0) return (f32 + kLeastPower - (f32 < 0x00800000 ? 1 : 0)) >> 23;
  const NarrowFormat f(t);
  if (f32 < f.smallest_normal()) {
    uint32_t base = f.subnormal_base();
    float moved = std::bit_cast<float>(f32) + std::bit_cast<float>(base);
    return std::bit_cast<uint32_t>(moved) - base;
  }
  // Round ties to even; a carry moves into the exponent.
  uint32_t rounded = f32 + (1U << (f.shift - 1)) - 1 + ((f32 >> f.shift) & 1U);
  return (rounded - f.rebias) >> f.shift;
}

inline uint32_t narrow(float value, DType t) {
  const DTypeInfo& row = info(t);
  uint32_t u = std::bit_cast<uint32_t>(value);
  uint32_t magnitude = u & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint32_t>(row.nan);
  uint32_t sign = (u >> (31 - row.magnitude_bits())) & static_cast<uint32_t>(row.sign());
  return (row.has_sign() ? sign : 0) |
         std::min(round_magnitude(magnitude, t), static_cast<uint32_t>(row.highest));
}

// Takes a type with a sign. Rounds up with a probability equal to the fraction that is cut off, to 24 bits: if
// the upper bits of `random` are below the fraction's. Numbers that the type has stay unchanged. Overflow is
// handled as in narrow().
inline uint32_t narrow_stochastic(float value, uint32_t random, DType t) {
  const NarrowFormat f(t);
  uint32_t u = std::bit_cast<uint32_t>(value);
  uint32_t magnitude = u & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint32_t>(f.row.nan);
  uint32_t rounded = 0;
  if (magnitude < f.smallest_normal()) {  // in units of the smallest subnormal, all exact
    float unit = std::bit_cast<float>(f.subnormal_base() - (23U << 23));
    float size = std::bit_cast<float>(magnitude) / unit;
    float whole = std::floor(size);
    float fraction = std::floor((size - whole) * 0x1p24F);
    rounded = static_cast<uint32_t>(whole) + (static_cast<float>(random >> 8) < fraction ? 1 : 0);
  } else {
    uint32_t unused = random >> (32 - f.shift);
    rounded = (magnitude + (1U << f.shift) - 1 - unused - f.rebias) >> f.shift;
  }
  uint32_t sign = (u >> (31 - f.row.magnitude_bits())) & static_cast<uint32_t>(f.row.sign());
  return sign | std::min(rounded, static_cast<uint32_t>(f.row.highest));
}

// Whether a finite number, or an infinity if the type has none, lies beyond the type's numbers.
inline bool is_beyond(float value, DType t) {
  const DTypeInfo& row = info(t);
  uint32_t magnitude = std::bit_cast<uint32_t>(value) & 0x7fffffffU;
  if (magnitude >= 0x7f800000U) return magnitude == 0x7f800000U && !row.has_infinity();
  return round_magnitude(magnitude, t) + (row.has_infinity() ? 1 : 0) > row.highest;
}

}  // namespace stepfuse
