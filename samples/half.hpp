// IEEE binary16 without a compiler's or processor's help: rounding, packing, unpacking. Knows only
// std.
#pragma once

#include <bit>
#include <cstdint>

namespace half {

// Rounds to the nearest f16 value, ties to even, and keeps it in a float: what storing to f16 and
// loading again would give. Without branches, so that loops over it vectorise.
inline float round(float x) {
  constexpr int32_t kSmallestNormal = 0x38800000;  // 2^-14
  constexpr int32_t kOverflow = 0x477FF000;        // 65520: halfway between 65504 and 65536
  constexpr int32_t kInfinity = 0x7F800000;
  auto bits = std::bit_cast<int32_t>(x);
  int32_t magnitude = bits & 0x7FFFFFFF;
  int32_t normal = static_cast<int32_t>((static_cast<uint32_t>(magnitude) + 0xFFFU +
                                         ((static_cast<uint32_t>(magnitude) >> 13U) & 1U)) &
                                        ~0x1FFFU);
  // Floats in [0.5, 1) are 2^-24 apart, as the subnormals of f16 are.
  float shifted = (std::bit_cast<float>(magnitude) + 0.5F) - 0.5F;
  int32_t large = magnitude > kInfinity ? 0x7FC00000 : kInfinity;
  int32_t rounded = magnitude >= kOverflow ? large : normal;
  rounded = magnitude < kSmallestNormal ? std::bit_cast<int32_t>(shifted) : rounded;
  return std::bit_cast<float>(rounded | (bits & INT32_MIN));
}

// The 16 bits of the nearest f16 value.
inline uint16_t from_float(float x) {
  auto bits = std::bit_cast<uint32_t>(round(x));
  uint32_t sign = (bits >> 16U) & 0x8000U;
  uint32_t magnitude = bits & 0x7FFFFFFFU;
  uint32_t half = (magnitude >> 13U) - (112U << 10U);  // rebias the exponent from 127 to 15
  if (magnitude < 0x38800000U) {
    half = static_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p24F);
  } else if (magnitude >= 0x7F800000U) {
    half = magnitude > 0x7F800000U ? 0x7FFFU : 0x7C00U;
  }
  return static_cast<uint16_t>(sign | half);
}

inline float to_float(uint16_t half) {
  uint32_t sign = (half & 0x8000U) << 16U;
  uint32_t magnitude = half & 0x7FFFU;
  uint32_t bits = (magnitude << 13U) + (112U << 23U);
  if (magnitude < 0x0400U) {
    bits = std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24F);
  } else if (magnitude >= 0x7C00U) {
    bits = 0x7F800000U | (magnitude << 13U);
  }
  return std::bit_cast<float>(sign | bits);
}

}  // namespace half
