// The handwritten digits, shuffled and split. Knows only std.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace digits {

inline constexpr size_t kPixels = 64;  // 8 x 8
inline constexpr size_t kClasses = 10;

struct Samples {
  std::vector<float> pixels;  // [sample][pixel], 0 to 1
  std::vector<int> labels;    // [sample], 0 to 9
  size_t size() const { return labels.size(); }
};

struct Digits {
  Samples train;  // four fifths
  Samples test;
};

// Numbers from a seed, the same with every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits();   // splitmix64
  double uniform();  // in [0, 1)
  std::vector<size_t> permutation(size_t n);

 private:
  uint64_t state_;
};

// Throws std::runtime_error naming the file, and the line that is not 65 numbers.
Digits load_digits(const std::string& csv_file, uint64_t seed);

}  // namespace digits
