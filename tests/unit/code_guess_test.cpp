// Guesses of codes: the formats' tables have them, and what they say of any number.
#include "compiler/plan/code_guess.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/format.hpp>

#include "ir/formats/code_table.hpp"

using namespace stepfuse;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max();

// Numbers for which the guess is neither the code nor one more, or the code cannot be told from it.
int wrong(const std::vector<float>& values) {
  std::vector<float> bounds = table_bounds(values);
  std::optional<plan::CodeGuess> guess = plan::guess_of(bounds);
  REQUIRE(guess);
  std::vector<float> xs = {0, -0.0F, kInf, -kInf, kMost, -kMost, 1e-40F, -1e-40F, std::nanf("")};
  for (float b : bounds)
    xs.insert(xs.end(), {b, std::nextafter(b, kInf), std::nextafter(b, -kInf)});
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    auto size = std::ldexp(static_cast<float>(random() % 4096 + 4096),
                           static_cast<int>(random() % 30) - 40);
    xs.push_back(random() % 2 == 0 ? size : -size);
  }
  int count = 0;
  for (float x : xs) {
    int32_t code = guessed(*guess, x);
    if (code < 0 || code > static_cast<int32_t>(bounds.size())) {
      ++count;
      continue;
    }
    float held = x > guess->low ? std::min(x, guess->high) : guess->low;
    bool above = code > 0 && held < bounds[static_cast<size_t>(code) - 1];
    count += code - (above ? 1 : 0) == nearest_code(values, x) ? 0 : 1;
  }
  return count;
}

}  // namespace

TEST_CASE("the formats' tables need no search") {
  for (const char* name : {"dyn8", "dyn8u", "dyn4", "lin4"}) {
    CAPTURE(name);
    CHECK(wrong(built_in_format(name).encode.tables.at(0).values) == 0);
  }
}

TEST_CASE("guesses of tables of one sign, of two values, far from 0") {
  CHECK(wrong({0, 1}) == 0);
  CHECK(wrong({-5, -4, -3}) == 0);
  CHECK(wrong({-1, 0, 1}) == 0);
  CHECK(wrong({1e30F, 2e30F, 4e30F}) == 0);
  std::vector<float> far;
  for (int i = 0; i < 200; ++i) far.push_back(1000 + static_cast<float>(i));
  CHECK(wrong(far) == 0);
}

TEST_CASE("what no line comes near has no guess") {
  auto has_guess = [](const std::vector<float>& values) {
    return plan::guess_of(table_bounds(values)).has_value();
  };
  CHECK(!has_guess({0, std::numeric_limits<float>::denorm_min()}));
  CHECK(!has_guess({-1, -0.5F, 0, 0.25F, 0.5F, 0.75F, 1}));  // unlike halves
  std::vector<float> crowded = {0, 1};  // far from 0, and denser than lines are
  for (int i = 0; i < 30; ++i)
    crowded.push_back(crowded.back() + std::ldexp(1.0F, i % 6 == 0 ? -2 : -20));
  CHECK(!has_guess(crowded));
}
