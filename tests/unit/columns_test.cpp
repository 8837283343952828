// Per-column values: their text, rules and meaning, worked out by hand. Knows ir.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/error.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>
#include <stepfuse/recipes.hpp>

#include "ir/semantics/interpreter.hpp"
#include "ir/semantics/reduction.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/rng.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr std::string_view kNormal = R"(step @s {
  buffer @w : f32 inout
  state @norms : <f32/column>
  report @longest : <f32>
  %w = load @w : [f32]
  %sq = mul %w, %w : [f32]
  %sum = reduce_add %sq : <f32/column>
  %norm = sqrt %sum : <f32/column>
  %before = read @norms : <f32/column>
  %both = add %norm, %before : <f32/column>
  %max = reduce_max %norm : <f32>
  %row = reduce_max %w : <f32/row>
  %outer = mul %norm, %row : [f32]
  %unit = div %w, %outer : [f32]
  store @w, %unit
  write @norms, %both
  write @longest, %max
}
)";

std::string error_of(std::string_view line) {
  return message_of([&] {
    parse("step @s {\nbuffer @w : f32 inout\n%w = load @w : [f32]\n" + std::string(line) +
          "\nstore @w, %w\n}");
  });
}

// A column's sum of squares in the language's order.
float sum_of(std::span<const float> w, uint64_t columns, uint64_t column) {
  std::vector<Bits> strips;
  for (uint64_t row = 0; row < w.size() / columns; ++row) {
    if (row % 64 == 0) strips.push_back({});
    float v = w[row * columns + column];
    strips.back() = Bits::of(strips.back().f32() + v * v);
  }
  return fold_values(Op::reduce_add, DType::f32, strips).f32();
}

}  // namespace

TEST_CASE("values of columns have a text, and rules") {
  CHECK(print(parse(kNormal)) == kNormal);
  const std::string sum = "%c = reduce_add %w : <f32/column>\n";
  const std::string row = "%r = reduce_add %w : <f32/row>\n";
  CHECK(error_of(sum + "%t = reduce_add %c : <f32>\n%s = reduce_add %c : f32") == "no error");
  CHECK(has(error_of("%r = reduce_add %w : <f32/columns>"),
            "'columns' is neither a block nor a square"));
  CHECK(has(error_of(sum + "%b = reduce_max %w : <f32/16>"), "[V19]"));
  CHECK(has(error_of(sum + "%t = reduce_add %c : <f32/column>"), "[V3]"));
  CHECK(has(error_of(sum + "%t = reduce_add %c : <f32/row>"), "[V3]"));
  CHECK(has(error_of(row + "%t = reduce_add %r : <f32/column>"), "[V3]"));
  CHECK(has(error_of(sum + row + "%b = add %c, %r : <f32/column>"), "finest operand: [f32]"));
  CHECK(has(error_of(sum + "%b = cast %c : <f64/column>"), "[V4]"));
  CHECK(has(error_of(sum + "%b = pow %c, %c : <f32/column>"), "takes no per-column values"));
  auto state = [](std::string_view type, std::string_view rest) {
    return message_of([&] {
      parse(
          fmt::format("step @s {{\nstate @x : {}\nbuffer @w : f32 in\n%w = load @w : [f32]\n"
                      "%r = reduce_add %w : <f32/row>\n%c = reduce_add %w : <f32/column>\n"
                      "%p = lt %r, 0 : <bool/row>\n{}\n}}",
                      type, rest));
    });
  };
  CHECK(state("<f32/column>", "write @x, %c") == "no error");
  CHECK(has(state("<f32/column>", "write @x, %r"), "[V9]"));
  CHECK(has(state("<f32/row>", "write @x, %c"), "[V9]"));
  CHECK(has(state("<f32/column>", "write @x, %c if %p"), "[V10]"));
  CHECK(has(state("<f64/column>", "write @x, 1"), "[V14]"));
  CHECK(has(message_of([] { parse("step @s {\nreport @r : <f32/column>\nwrite @r, 1\n}"); }),
            "report @r is per column"));
}

TEST_CASE("a column is summed strip by strip") {
  Program p = parse(kNormal);
  Rng rng(3, "columns");
  for (auto [rows, columns] : {std::pair<uint64_t, uint64_t>{1, 7},
                               {3, 5},
                               {64, 1},
                               {65, 3},
                               {300, 2},
                               {2, 20000},
                               {70, 17000}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    std::vector<float> first(rows * columns), absent(2 * columns), w;
    for (float& v : first) v = static_cast<float>(rng.unit() - 0.5);
    w = first;
    std::vector<float> alone = {3, -4};  // one row without columns: each element is a column
    StepData data;
    data.tensors = {{.size = w.size(), .columns = columns, .data = {w.data()}},
                    {.size = absent.size(), .columns = columns, .present = false},
                    {.size = 2, .data = {alone.data()}},
                    {.size = 0, .columns = 4}};
    for (StepTensor& t : data.tensors) {
      t.dtypes = {DType::f32};
      t.data.resize(1);
    }
    data.tensors[1].data = {absent.data()};
    data.states = {std::vector<Bits>(2 * columns + 2, Bits::of(1.0F)), std::vector<Bits>(4)};
    interpret(p, data);
    float most = 0;
    const uint64_t last = (rows - 1) * columns;
    float row = *std::max_element(first.begin() + static_cast<std::ptrdiff_t>(last), first.end());
    for (uint64_t c = 0; c < columns; ++c) {
      float norm = std::sqrt(sum_of(first, columns, c));
      most = std::max(most, norm);
      REQUIRE(data.states[0][c].f32() == norm + 1);
      REQUIRE(data.states[0][columns + c].f32() == 1);  // not written, because its tensor is absent
      REQUIRE(w[last + c] == first[last + c] / (norm * row));
    }
    CHECK(data.states[1][0].f32() == most);
    CHECK(data.states[1][1].f32() == 0);  // an absent tensor: square roots of empty sums
    CHECK(data.states[0][2 * columns + 1].f32() == 5);
    CHECK(alone[1] == -4.0F / (4.0F * 3.0F));
    CHECK(data.states[1][2].f32() == 4);
  }
}

TEST_CASE("formulas reduce to columns and keep values of them") {
  Program p = make_recipe(parse_optimizer(R"(optimizer o "" {
    state v : column
    v = lerp(v, mean(g * g, column), 0.1)
    report most = max(sqrt(v), tensor)
    report positive = max(sum(g > 0, column), step)
    w = w - g / (sqrt(v * max(norm(g, row), 1)) + 1e-8)
  })"));
  std::string s = print(p);
  CHECK(has(s, "state @v : <f32/column>"));
  CHECK(has(s, ": <f32/column>\n"));
  CHECK(has(s, "reduce_max %"));
  auto error = [](std::string_view body) {
    return message_of(
        [&] { make_recipe(parse_optimizer("optimizer o \"\" {" + std::string(body) + "}")); });
  };
  CHECK(has(error("report r = norm(g, column)\nw = w - g"), "reduce this"));
  CHECK(has(error("w = w - sum(norm(g, row), column) * g"), "already has one value per row"));
  CHECK(has(error("state v : column f32\nv = norm(g, row)\nw = w - v * g"), "reduce it"));
  CHECK(has(error("state v : column f64\nv = norm(g, column)\nw = w - v * g"),
            "the type of a column state must be f32"));
}
