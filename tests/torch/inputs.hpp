// Seeded inputs that tools/peers/inputs.py makes too, bit for bit: integers and exact scaling only.
// Knows only std.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

namespace stepfuse::torch_check {

// One 64-bit number from several: splitmix64's finaliser over a running state.
inline uint64_t mix(std::initializer_list<uint64_t> words) {
  uint64_t z = 0;
  for (uint64_t w : words) {
    z += w + 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    z = z ^ (z >> 31U);
  }
  return z;
}

// n floats, mantissas uniform in +-1/2 and exponents in 2^-6 … 2^1.
inline std::vector<float> values(uint64_t seed, size_t n) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) {
    uint64_t z = seed + i * 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    z = z ^ (z >> 31U);
    auto mantissa = static_cast<int64_t>(z >> 40U) - (int64_t{1} << 23U);
    int exponent = static_cast<int>(z & 7U) - 6 - 24;
    out[i] = std::ldexp(static_cast<float>(mantissa), exponent);
  }
  return out;
}

inline std::vector<float> weights(uint64_t seed, uint64_t tensor, size_t n) {
  return values(mix({seed, 1, tensor}), n);
}
inline std::vector<float> gradient(uint64_t seed, uint64_t step, uint64_t tensor, size_t n) {
  return values(mix({seed, 2, step, tensor}), n);
}

// Whether something happens that happens `hits` times out of `of`.
inline bool chance(uint64_t seed, uint64_t what, uint64_t step, uint64_t index, uint64_t of,
                   uint64_t hits = 1) {
  return mix({seed, what, step, index}) % of < hits;
}

// Puts one inf, -inf or NaN somewhere into `grad`.
inline void spoil(std::vector<float>& grad, uint64_t seed, uint64_t step, uint64_t tensor) {
  if (grad.empty()) return;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kBad[] = {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()};
  uint64_t z = mix({seed, 4, step, tensor});
  grad[z % grad.size()] = kBad[(z >> 32U) % 3];
}

}  // namespace stepfuse::torch_check
