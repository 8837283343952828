// The random numbers of the language: Philox4x32-10 (Salmon et al., 2011), a pure function of a key and a
// counter. Knows only std.
#pragma once

#include <array>
#include <cstdint>

namespace stepfuse {

using Philox = std::array<uint32_t, 4>;

inline constexpr uint32_t kPhiloxMultipliers[2] = {0xd2511f53, 0xcd9e8d57};
inline constexpr uint32_t kPhiloxWeyl[2] = {0x9e3779b9, 0xbb67ae85};
inline constexpr int kPhiloxRounds = 10;
// Elements whose numbers are one result of Philox. Shards begin at multiples of them.
inline constexpr int kDrawnTogether = 4;

constexpr Philox philox(Philox c, uint64_t key) {
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    uint64_t a = uint64_t{kPhiloxMultipliers[0]} * c[0];
    uint64_t b = uint64_t{kPhiloxMultipliers[1]} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    k0 += kPhiloxWeyl[0];
    k1 += kPhiloxWeyl[1];
  }
  return c;
}

// The inputs of `random` that all elements of a tensor share.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t count = 0;   // its low 32 bits are used
  uint32_t stream = 0;  // its low 16 bits are used
  uint32_t tensor = 0;  // the tensor's id
};

// Returns the bits for elements 4 * block … 4 * block + 3 of the full tensor.
constexpr Philox random_block(const RandomKey& key, uint64_t block) {
  return philox({static_cast<uint32_t>(block),
                 static_cast<uint32_t>(block >> 32) << 16 | (key.stream & 0xffff), key.tensor,
                 static_cast<uint32_t>(key.count)},
                key.seed);
}

}  // namespace stepfuse
