// Cells of codes: what they say of any number beside what the table means, and which tables have none.
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/format.hpp>

#include "compiler/llvm/cells.hpp"
#include "ir/formats/code_table.hpp"

using namespace stepfuse;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max();

int wrong(const std::vector<float>& values) {
  std::vector<float> bounds = table_bounds(values);
  std::optional<llvm::CodeCells> cells = llvm::cells_of(bounds);
  REQUIRE(cells);
  std::vector<float> xs = {0, -0.0F, kInf, -kInf, kMost, -kMost, 1e-40F, -1e-40F, std::nanf("")};
  for (float b : bounds)
    xs.insert(xs.end(), {b, std::nextafter(b, kInf), std::nextafter(b, -kInf), -b});
  for (uint32_t size = cells->first; size < 0x40000000U; size += 1U << cells->shift) {
    float first = std::bit_cast<float>(size);
    xs.insert(xs.end(), {first, -first, std::nextafter(first, 0.0F), -std::nextafter(first, 0.0F)});
  }
  std::mt19937 random(11);
  for (int i = 0; i < 20000; ++i) {
    auto size = std::ldexp(static_cast<float>(random() % 4096 + 4096),
                           static_cast<int>(random() % 30) - 40);
    xs.push_back(random() % 2 == 0 ? size : -size);
  }
  int count = 0;
  for (float x : xs) count += code_in(*cells, x) == nearest_code(values, x) ? 0 : 1;
  return count;
}

}  // namespace

TEST_CASE("the formats' tables have cells") {
  for (const char* name : {"dyn8", "dyn8u", "dyn4", "lin4"}) {
    CAPTURE(name);
    CHECK(wrong(built_in_format(name).encode.tables.at(0).values) == 0);
  }
}

TEST_CASE("cells of tables of one sign, of two values, of 256, with changes where a cell begins") {
  CHECK(wrong({0, 1}) == 0);
  CHECK(wrong({-2, -1}) == 0);
  CHECK(wrong({-1, 0.5F}) == 0);
  CHECK(wrong({-6, -2, 2, 6}) == 0);  // bounds -4 and 4, and one of 0's neighbours
  CHECK(wrong({1, 3, 5, 11}) == 0);   // 2, 4, 8
  std::vector<float> many;
  for (int k = 0; k < 256; ++k) many.push_back(static_cast<float>(k - 100));
  CHECK(wrong(many) == 0);
}

TEST_CASE("no cells where codes lie too near to each other, about 0, or are too many") {
  CHECK(!llvm::cells_of({}));
  float one = 1;
  std::vector<float> near = {one, std::nextafter(one, kInf), std::nextafter(one, kMost) + 1e-6F};
  CHECK(!llvm::cells_of(near));
  CHECK(!llvm::cells_of(std::vector<float>{0, 1}));
  CHECK(!llvm::cells_of(std::vector<float>{-1e-39F, 1}));
  CHECK(!llvm::cells_of(std::vector<float>{1e-30F, 1, 1.001F}));
  CHECK(!llvm::cells_of(std::vector<float>(256, 1.0F)));
  CHECK(!llvm::cells_of(std::vector<float>{1, kInf}));
}
