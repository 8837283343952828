// A small seeded generator whose numbers are the same on every platform. Knows the workload's bits.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "tools/workload/random.hpp"

namespace stepfuse::testing {

class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  // A stream of its own for `name`, so that what is drawn for one thing moves no other.
  Rng(uint64_t seed, std::string_view name) : state_(seed) {
    for (char c : name) state_ = state_ * 0x100000001b3U ^ static_cast<unsigned char>(c);
  }

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    return mix_bits(state_);
  }
  uint64_t below(uint64_t n) { return next() % n; }
  int between(int low, int high) {
    return low + static_cast<int>(below(static_cast<uint64_t>(high - low) + 1));
  }
  bool chance(int percent) { return below(100) < static_cast<uint64_t>(percent); }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)

  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[below(list.size())];
  }
  template <class T>
  T pick(std::initializer_list<T> list) {
    return *(list.begin() + below(list.size()));
  }
  // An index, with the given weights.
  size_t weighted(std::initializer_list<int> weights) {
    int total = 0;
    for (int w : weights) total += w;
    int at = between(0, total - 1);
    size_t i = 0;
    for (int w : weights) {
      if (at < w) break;
      at -= w;
      ++i;
    }
    return i;
  }

 private:
  uint64_t state_;
};

}  // namespace stepfuse::testing
