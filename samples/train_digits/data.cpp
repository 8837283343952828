// Reads the digits from their CSV file. Knows only std.
#include "samples/train_digits/data.hpp"

#include <fstream>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace digits {

uint64_t Random::bits() {
  state_ += 0x9E3779B97F4A7C15U;
  uint64_t z = state_;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

double Random::uniform() { return static_cast<double>(bits() >> 11U) * 0x1p-53; }

std::vector<size_t> Random::permutation(size_t n) {
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = n; i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(uniform() * static_cast<double>(i))]);
  }
  return order;
}

namespace {

Samples read_csv(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read " + file + "; name the file with --data");
  Samples all;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::istringstream cells(line);
    std::vector<int> values;
    for (std::string cell; std::getline(cells, cell, ',');) {
      values.push_back(std::atoi(cell.c_str()));
    }
    bool good = values.size() == kPixels + 1 && values.back() >= 0 &&
                values.back() < static_cast<int>(kClasses);
    if (!good) {
      throw std::runtime_error(file + ":" + std::to_string(number) +
                               ": expected 64 pixels and a digit");
    }
    for (size_t i = 0; i < kPixels; ++i) {
      all.pixels.push_back(static_cast<float>(values[i]) / 16.0F);
    }
    all.labels.push_back(values.back());
  }
  return all;
}

}  // namespace

Digits load_digits(const std::string& csv_file, uint64_t seed) {
  Samples all = read_csv(csv_file);
  std::vector<size_t> order = Random(seed).permutation(all.size());
  Digits out;
  for (size_t i = 0; i < order.size(); ++i) {
    Samples& part = i < order.size() * 4 / 5 ? out.train : out.test;
    const float* image = &all.pixels[order[i] * kPixels];
    part.pixels.insert(part.pixels.end(), image, image + kPixels);
    part.labels.push_back(all.labels[order[i]]);
  }
  return out;
}

}  // namespace digits
