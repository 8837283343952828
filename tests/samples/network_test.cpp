// The network of train_digits: its gradients against finite differences, its data, its underflow.
#include "samples/train_digits/network.hpp"

#include <cmath>
#include <numeric>
#include <stdexcept>

#include <doctest/doctest.h>

#include "samples/half.hpp"
#include "tests/source_dir.hpp"

using namespace digits;

namespace {

constexpr const char* kCsv = STEPFUSE_SOURCE_DIR "/samples/data/digits.csv";

std::vector<size_t> first(size_t n) {
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

}  // namespace

TEST_CASE("the digits are all there, split four to one, the same for a seed") {
  Digits a = load_digits(kCsv, 3), b = load_digits(kCsv, 3), c = load_digits(kCsv, 4);
  CHECK(a.train.size() == 1437);
  CHECK(a.test.size() == 360);
  CHECK(a.train.labels == b.train.labels);
  CHECK(a.train.labels != c.train.labels);
  CHECK_THROWS_WITH_AS(load_digits("/no/such/file.csv", 1),
                       "cannot read /no/such/file.csv; name the file with --data",
                       std::runtime_error);
}

TEST_CASE("gradients are those of the loss") {
  Digits digits = load_digits(kCsv, 1);
  Network network({kPixels, 12, kClasses}, 5);
  std::vector<size_t> order = first(16);
  network.forward(digits.train, order.data(), order.size());
  constexpr float kScale = 1024;
  network.backward(kScale);
  std::vector<Parameter>& parameters = network.parameters();
  for (size_t p = 0; p < parameters.size(); ++p) {
    // The steepest weight of each tensor, moved by more than what rounding activations hides.
    size_t at = 0;
    auto gradient = [&](size_t i) { return half::to_float(parameters[p].gradient[i]) / kScale; };
    for (size_t i = 0; i < parameters[p].weight.size(); ++i) {
      if (std::abs(gradient(i)) > std::abs(gradient(at))) at = i;
    }
    uint16_t& weight = parameters[p].weight[at];
    uint16_t before = weight;
    float high = half::round(half::to_float(before) + 0.25F);
    float low = half::round(half::to_float(before) - 0.25F);
    weight = half::from_float(high);
    double above = network.forward(digits.train, order.data(), order.size());
    weight = half::from_float(low);
    double below = network.forward(digits.train, order.data(), order.size());
    weight = before;
    double slope = (above - below) / static_cast<double>(high - low);
    CHECK(static_cast<double>(gradient(at)) == doctest::Approx(slope).epsilon(0.05));
  }
}

TEST_CASE("deep in the network gradients underflow, and a loss scale brings them back") {
  Digits digits = load_digits(kCsv, 1);
  Network network({kPixels, 64, 64, 64, 64, 64, kClasses}, 1);
  std::vector<size_t> order = first(64);
  double unscaled = 0, scaled = 0;
  network.forward(digits.train, order.data(), order.size());
  network.backward(1);
  unscaled = network.underflow_share();
  network.backward(0x1p16F);
  scaled = network.underflow_share();
  CHECK(unscaled > 0.1);
  CHECK(scaled < 0.01);
  network.backward(0x1p40F);  // overflows
  CHECK((network.parameters().back().gradient[0] & 0x7C00U) == 0x7C00U);
}
