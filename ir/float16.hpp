// Conversions between f32 and the 16-bit float types, as the numerics contract defines them:
// round to nearest even, subnormals kept, overflow to infinity, every NaN to 0x7FFF. Knows only
// std.
#pragma once

#include <bit>
#include <cstdint>

namespace stepfuse {

inline float bf16_to_f32(uint16_t h) {
  return std::bit_cast<float>(static_cast<uint32_t>(h) << 16);
}

inline uint16_t f32_to_bf16(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7fffffffU) > 0x7f800000U) return 0x7fff;
  u += 0x7fffU + ((u >> 16) & 1U);  // ties to even; carries into the exponent, and so to inf
  return static_cast<uint16_t>(u >> 16);
}

inline float f16_to_f32(uint16_t h) {
  uint32_t sign = static_cast<uint32_t>(h & 0x8000U) << 16;
  uint32_t magnitude = h & 0x7fffU;
  if (magnitude >= 0x7c00U) {  // inf, NaN
    return std::bit_cast<float>(sign | 0x7f800000U | ((magnitude & 0x3ffU) << 13));
  }
  // A multiple of 2^-24: exact in f32, for normals and subnormals alike.
  if (magnitude < 0x400U) {
    float value = static_cast<float>(magnitude) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112U << 23)));
}

inline uint16_t f32_to_f16(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f);
  uint32_t sign = (u >> 16) & 0x8000U;
  u &= 0x7fffffffU;
  if (u > 0x7f800000U) return 0x7fff;
  if (u >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);  // 65520 and above
  if (u < 0x38800000U) {  // below the smallest normal: round to a multiple of 2^-24
    float shifted = std::bit_cast<float>(u) + 0.5F;  // 0.5 has an ulp of 2^-24
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U));
  }
  u += 0xfffU + ((u >> 13) & 1U);
  return static_cast<uint16_t>(sign | ((u - (112U << 23)) >> 13));
}

}  // namespace stepfuse
