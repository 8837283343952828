// Values of squares, which 128 rows of 128 columns share: their text, rules and meaning, worked out
// by hand. Knows ir.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/error.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>
#include <stepfuse/recipes.hpp>

#include "ir/semantics/interpreter.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/rng.hpp"

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

// Sums 128 lanes of each row by halving, then the rows in succession.
float sum_of(const std::vector<float>& w, uint64_t rows, uint64_t columns, uint64_t row,
             uint64_t column) {
  float sum = 0;
  for (uint64_t r = row; r < std::min(rows, row + 128); ++r) {
    std::vector<float> lanes(128, 0.0F);
    for (uint64_t c = column; c < std::min(columns, column + 128); ++c) {
      lanes[c - column] = w[r * columns + c];
    }
    for (size_t d = 64; d > 0; d /= 2) {
      for (size_t l = 0; l < d; ++l) lanes[l] += lanes[l + d];
    }
    sum += lanes[0];
  }
  return sum;
}

}  // namespace

TEST_CASE("values of squares have a text, and rules") {
  CHECK(print(parse(kShared)) == kShared);
  const std::string most = "%m = reduce_max %w : <f32/128x128>\n";
  CHECK(error_of(most + "%t = mul %m, 2 : <f32/128x128>\n%u = add %t, %w : [f32]") == "no error");
  CHECK(has(error_of("%m = reduce_max %w : <f32/128x64>"), "'128x64' elements are no block"));
  CHECK(has(error_of(most + "%b = reduce_max %w : <f32/128>"), "[V19]"));
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
  Program p = parse(kShared);
  Rng rng(3, "squares");
  for (auto [rows, columns] : {std::pair<uint64_t, uint64_t>{1, 5},
                               {128, 128},
                               {130, 257},
                               {127, 1},
                               {300, 2},
                               {129, 16500}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    uint64_t along = (columns + 127) / 128;
    uint64_t squares = (rows + 127) / 128 * along;
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
      uint64_t row = s / along * 128, column = s % along * 128;
      float expected = sum_of(first, rows, columns, row, column);
      REQUIRE(sum[s] == (s == 0 ? expected : -1));  // elsewhere nothing is above 1
      uint64_t last = std::min(rows, row + 128) - 1;
      uint64_t at = last * columns + std::min(columns, column + 128) - 1;
      REQUIRE(w[at] == first[at] - (expected + 2));
      REQUIRE(w[row * columns + column] == first[row * columns + column] - (expected + 2));
    }
    CHECK(absent[0] == 3);
    CHECK(absent_sum[0] == -1);
  }
}

TEST_CASE("copies with a scale for 128x128 refuse what is counted otherwise") {
  RecipeOptions options{.master = true, .model = DType::f8e4m3, .copy_scale = CopyScale::block128};
  options.moments = "fp8";
  std::string message = message_of([&] { make_recipe("adamw", options); });
  CHECK(has(message, ".copy_scale = block128"));
  CHECK(has(message, ".moments = f32 or bf16"));
}
