// Values of squares, which 16, 32 or 128 rows of as many columns share: their text, rules and meaning, worked out by
// hand. Knows ir.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/error.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>
#include <stepfuse/recipes.hpp>

#include "ir/semantics/interpreter.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/rng.hpp"
#include "tests/support/sides.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr std::string_view kShared = R"(step @s {
  buffer @w : f32 inout
  buffer @given : <f16/128x128> in
  buffer @sum : <f32/128x128> out
  %w = load @w : [f32]
  %given16 = load @given : <f16/128x128>
  %given = cast %given16 : <f32/128x128>
  %size = abs %w : [f32]
  %most = reduce_max %size : <f32/128x128>
  %sum = reduce_add %w : <f32/128x128>
  %all = add %sum, %given : <f32/128x128>
  %one = const 1 : f32
  %large = lt %one, %most : <bool/128x128>
  %new = sub %w, %all : [f32]
  store @w, %new
  store @sum, %sum if %large
}
)";

std::string error_of(std::string_view line) {
  return message_of([&] {
    parse("step @s {\nbuffer @w : f32 inout\n%w = load @w : [f32]\n" + std::string(line) +
          "\nstore @w, %w\n}");
  });
}
std::string error_of_buffer(std::string_view declaration) {
  return message_of([&] {
    parse("step @s {\nbuffer @b : <f32/128x128> " + std::string(declaration) +
          "\nbuffer @w : f32 inout\nstore @w, 1\n}");
  });
}

// Sums the lanes of each row of a square by halving, then the rows in succession.
float sum_of(const std::vector<float>& w, uint64_t rows, uint64_t columns, uint64_t row,
             uint64_t column, uint64_t side) {
  float sum = 0;
  for (uint64_t r = row; r < std::min(rows, row + side); ++r) {
    std::vector<float> lanes(side, 0.0F);
    for (uint64_t c = column; c < std::min(columns, column + side); ++c) {
      lanes[c - column] = w[r * columns + c];
    }
    for (size_t d = side / 2; d > 0; d /= 2) {
      for (size_t l = 0; l < d; ++l) lanes[l] += lanes[l + d];
    }
    sum += lanes[0];
  }
  return sum;
}

// Compares the interpreter with sum_of() on matrices that end within squares.
void check_reduced(uint64_t side) {
  Program p = parse(with_side(std::string(kShared), static_cast<int>(side)));
  Rng rng(3, "squares");
  for (auto [rows, columns] : {std::pair<uint64_t, uint64_t>{1, 5},
                               {128, 128},
                               {130, 257},
                               {127, 1},
                               {300, 2},
                               {129, 16500}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    uint64_t along = (columns + side - 1) / side;
    uint64_t squares = (rows + side - 1) / side * along;
    std::vector<float> first(rows * columns);
    for (float& v : first) v = static_cast<float>(rng.unit() - 0.5);
    first[0] = 2;
    std::vector<float> w = first, sum(squares, -1.0F), absent = {3}, absent_sum = {-1};
    std::vector<uint16_t> given(squares, 0x4000), absent_given = {0};  // 2
    StepData data;
    data.tensors = {
        {.size = 1,
         .present = false,
         .data = {absent.data(), absent_given.data(), absent_sum.data()}},
        {.size = w.size(), .columns = columns, .data = {w.data(), given.data(), sum.data()}},
        {.size = 0, .columns = 4, .data = {nullptr, nullptr, nullptr}}};
    for (StepTensor& t : data.tensors) t.dtypes = {DType::f32, DType::f16, DType::f32};
    interpret(p, data);
    for (uint64_t s = 0; s < squares; ++s) {
      uint64_t row = s / along * side, column = s % along * side;
      float expected = sum_of(first, rows, columns, row, column, side);
      REQUIRE(sum[s] == (s == 0 ? expected : -1));  // elsewhere nothing is above 1
      uint64_t last = std::min(rows, row + side) - 1;
      uint64_t at = last * columns + std::min(columns, column + side) - 1;
      REQUIRE(w[at] == first[at] - (expected + 2));
      REQUIRE(w[row * columns + column] == first[row * columns + column] - (expected + 2));
    }
    CHECK(absent[0] == 3);
    CHECK(absent_sum[0] == -1);
  }
}

}  // namespace

TEST_CASE("values of squares have a text, and rules") {
  CHECK(print(parse(kShared)) == kShared);
  const std::string most = "%m = reduce_max %w : <f32/128x128>\n";
  CHECK(error_of(most + "%t = mul %m, 2 : <f32/128x128>\n%u = add %t, %w : [f32]") == "no error");
  for (const char* none : {"128x64", "64x64", "256x256"}) {
    CHECK(has(error_of(fmt::format("%m = reduce_max %w : <f32/{}>", none)),
              fmt::format("'{}' is neither a block nor a square: write one of 8, 16, 32, 64, 128, "
                          "256, 16x16, 32x32, 128x128",
                          none)));
  }
  CHECK(error_of("%a = reduce_max %w : <f32/32x32>\n%b = reduce_max %w : <f32/16x16>\n"
                 "%c = mul %a, %b : <f32/16x16>") == "no error");
  CHECK(has(error_of("%a = reduce_max %w : <f32/32x32>\n%b = mul %a, 2 : <f32/16x16>"), "[V3]"));
  CHECK(error_of(most + "%b = mul %m, 1 : <f32/128x128>\n%c = reduce_max %w : <f32/32>\n"
                        "%d = mul %c, %b : <f32/32>") == "no error");
  CHECK(has(error_of(most + "%b = reduce_max %w : <f32/16>\n%c = reduce_max %w : <f32/column>"),
            "[V19]"));
  CHECK(has(error_of(most + "%t = reduce_max %m : <f32>"), "not reduced further"));
  CHECK(
      has(error_of("%r = reduce_add %w : <f32/row>\n%t = reduce_add %r : <f32/128x128>"), "[V3]"));
  CHECK(has(error_of(most + "%r = reduce_add %w : <f32/row>\n%t = mul %m, %r : <f32/128x128>"),
            "finest operand: [f32]"));
  CHECK(has(error_of(most + "%c = reduce_add %w : <f32/column>\n%t = mul %m, %c : <f32/128x128>"),
            "finest operand: [f32]"));
  CHECK(has(error_of(most + "%t = cast %m : <f64/128x128>"), "[V4]"));
  CHECK(has(message_of([] { parse("step @s {\nstate @x : <f32/128x128>\nwrite @x, 1\n}"); }),
            "[V14]"));
  CHECK(error_of_buffer("in") == "no error");
  CHECK(has(error_of_buffer("inout"), "[V13]"));
  CHECK(has(error_of_buffer("out = 0"), "[V13]"));
  CHECK(has(message_of([] {
              parse(
                  "step @s {\nbuffer @w : f32 in\nbuffer @b : <f32/128x128> out\n"
                  "%w = load @w : [f32]\nstore @b, %w\n}");
            }),
            "[V8]"));
  Program p = parse(kShared);
  CHECK(p.buffers[1].count(130 * 257, 257) == 2 * 3);
  CHECK(p.buffers[1].count(5, 5) == 1);
  CHECK(p.buffers[1].count(0, 0) == 0);
}

TEST_CASE("a square is reduced row by row") {
  for (uint64_t side : {16, 32, 128}) {
    CAPTURE(side);
    check_reduced(side);
  }
}

// The second square lies in the first one. Each element gets both maxima.
TEST_CASE("a step may have squares of several sizes") {
  Program p = parse(R"(step @sides {
  buffer @w : f32 inout
  buffer @small : <f32/16x16> out
  %w = load @w : [f32]
  %large = reduce_max %w : <f32/128x128>
  %few = reduce_min %w : <f32/16x16>
  %both = sub %large, %few : <f32/16x16>
  store @w, %both
  store @small, %both
})");
  constexpr uint64_t kRows = 150, kColumns = 140;
  Rng rng(5, "sides");
  std::vector<float> first(kRows * kColumns);
  for (float& v : first) v = static_cast<float>(rng.unit() - 0.5);
  std::vector<float> w = first, small(10 * 9);
  StepData data;
  data.tensors = {{.size = w.size(), .columns = kColumns, .data = {w.data(), small.data()}}};
  data.tensors[0].dtypes = {DType::f32, DType::f32};
  interpret(p, data);
  auto extreme = [&](uint64_t row, uint64_t column, uint64_t side, bool is_max) {
    float found = first[row / side * side * kColumns + column / side * side];
    for (uint64_t r = row / side * side; r < std::min(kRows, row / side * side + side); ++r) {
      for (uint64_t c = column / side * side; c < std::min(kColumns, column / side * side + side);
           ++c) {
        float v = first[r * kColumns + c];
        found = is_max ? std::max(found, v) : std::min(found, v);
      }
    }
    return found;
  };
  for (uint64_t row = 0; row < kRows; ++row) {
    for (uint64_t column = 0; column < kColumns; ++column) {
      float expected = extreme(row, column, 128, true) - extreme(row, column, 16, false);
      REQUIRE(w[row * kColumns + column] == expected);
      REQUIRE(small[row / 16 * 9 + column / 16] == expected);
    }
  }
}
TEST_CASE("copies with a scale for 128x128 refuse what is counted otherwise") {
  RecipeOptions options{.master = true, .model = DType::f8e4m3, .copy_scale = CopyScale::block128};
  options.moments = "fp8";
  std::string message = message_of([&] { make_recipe("adamw", options); });
  CHECK(has(message, ".copy_scale = block128"));
  CHECK(has(message, ".moments = f32 or bf16"));
}
