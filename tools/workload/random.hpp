// Random numbers as a function of seed, array and element, in any order, and the same on every
// machine. Knows only std.
#pragma once

#include <cstdint>
#include <string_view>

namespace stepfuse {

// Every bit of the result depends on every bit of `x` (the finalizer of SplitMix64).
constexpr uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// The numbers of one array in one step.
class RandomStream {
 public:
  constexpr RandomStream(uint64_t seed, std::string_view array, uint64_t tensor, uint64_t step = 0)
      : key_(mix_bits(seed + kGolden)) {
    for (char c : array) absorb(static_cast<unsigned char>(c));
    absorb(array.size());
    absorb(tensor);
    absorb(step);
  }

  constexpr uint64_t bits(uint64_t element) const { return mix_bits(key_ + kGolden * element); }
  // In [0, 1).
  constexpr double uniform(uint64_t element) const {
    return static_cast<double>(bits(element) >> 11) * 0x1p-53;
  }

 private:
  static constexpr uint64_t kGolden = 0x9e3779b97f4a7c15U;
  constexpr void absorb(uint64_t word) { key_ = mix_bits(key_ ^ mix_bits(word + kGolden)); }

  uint64_t key_;
};

// Nearly normal with standard deviation 1.15, and exact: the sum of four uniform 16-bit numbers.
constexpr float normal_value(uint64_t bits) {
  int32_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<int32_t>((bits >> (16 * i)) & 0xffffU);
  return static_cast<float>(sum - 2 * 0xffff) * 0x1p-15F;
}

}  // namespace stepfuse
