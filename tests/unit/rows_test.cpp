// Values of rows: their text, rules and meaning, by hand. Knows ir.
#include <doctest/doctest.h>

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
  state @norms : <f32/row>
  report @longest : <f32>
  %w = load @w : [f32]
  %sq = mul %w, %w : [f32]
  %sum = reduce_add %sq : <f32/row>
  %norm = sqrt %sum : <f32/row>
  %before = read @norms : <f32/row>
  %both = add %norm, %before : <f32/row>
  %max = reduce_max %norm : <f32>
  %unit = div %w, %norm : [f32]
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

// A row's sum in the order of the language.
float sum_of(std::span<const float> row) {
  std::vector<Bits> pieces;
  for (size_t begin = 0; begin < row.size(); begin += kPieceElements) {
    PieceReducer piece(Op::reduce_add, DType::f32);
    for (size_t i = begin; i < std::min(row.size(), begin + kPieceElements); ++i) {
      piece.add(i, Bits::of(row[i] * row[i]));
    }
    pieces.push_back(piece.fold());
  }
  return fold_values(Op::reduce_add, DType::f32, pieces).f32();
}

}  // namespace

TEST_CASE("values of rows have a text, and rules") {
  CHECK(print(parse(kNormal)) == kNormal);
  CHECK(has(error_of("%r = reduce_add %w : <f32/rows>"), "'rows' is neither a block nor a square"));
  CHECK(error_of("%r = reduce_add %w : <f32/row>\n%b = reduce_max %w : <f32/16>\n"
                 "%c = mul %r, %b : <f32/16>") == "no error");
  CHECK(has(error_of("%r = reduce_add %w : <f32/row>\n%t = reduce_add %r : <f32/row>"), "[V3]"));
  CHECK(has(error_of("%t = reduce_add %w : <f32>\n%r = reduce_add %t : <f32/row>"), "[V3]"));
  CHECK(has(message_of([] {
              parse(
                  "step @s {\nreport @r : <f32/row>\nbuffer @w : f32 in\n%w = load @w : [f32]\n"
                  "%n = reduce_add %w : <f32/row>\nwrite @r, %n\n}");
            }),
            "[V14]"));
  CHECK(
      has(message_of([] { parse("step @s {\narg %a : <f32/row>\nstate @x : f32\n}"); }), "[V15]"));
}

TEST_CASE("a row is summed as a tensor of its own") {
  Program p = parse(kNormal);
  Rng rng(3, "rows");
  for (uint64_t columns :
       {uint64_t{0}, uint64_t{1}, uint64_t{5}, uint64_t{2500}, uint64_t{20000}}) {
    CAPTURE(columns);
    uint64_t length = columns == 0 ? 300 : columns, rows = columns == 0 ? 1 : 3;
    std::vector<float> first(rows * length), absent(2 * length), w;
    for (float& v : first) v = static_cast<float>(rng.unit() - 0.5);
    w = first;
    std::vector<float> alone = {3};  // one row without columns
    StepData data;
    data.tensors = {
        {.size = w.size(), .offset = 7 * columns, .columns = columns, .data = {w.data()}},
        {.size = absent.size(), .columns = length, .present = false},
        {.size = 1, .data = {alone.data()}},
        {.size = 0, .columns = 4}};
    for (StepTensor& t : data.tensors) {
      t.dtypes = {DType::f32};
      t.data.resize(1);
    }
    data.tensors[1].data = {absent.data()};
    data.states = {std::vector<Bits>(rows + 3, Bits::of(1.0F)), std::vector<Bits>(4)};
    interpret(p, data);
    for (size_t r = 0; r < rows; ++r) {
      float norm = std::sqrt(sum_of(std::span(first).subspan(r * length, length)));
      CHECK(data.states[0][r].f32() == norm + 1);
      CHECK(w[r * length] == first[r * length] / norm);
      CHECK(data.states[1][0].f32() >= norm);
    }
    CHECK(data.states[0][rows].f32() == 1);  // not written: its tensor is absent
    CHECK(data.states[0][rows + 1].f32() == 1);
    CHECK(data.states[0][rows + 2].f32() == 4);
    CHECK(alone[0] == 1);
    CHECK(data.states[1][2].f32() == 3);
  }
}

TEST_CASE("formulas reduce to rows and keep values of them") {
  Program p = make_recipe(parse_optimizer(R"(optimizer o "" {
    state v : row f32
    v = 0.9 * v + 0.1 * mean(g * g, row)
    report most = max(sqrt(v), tensor)
    report positive = max(sum(g > 0, row), step)
    w = w - g / (sqrt(v) + 1e-8)
  })"));
  std::string s = print(p);
  CHECK(has(s, "state @v : <f32/row>"));
  CHECK(has(s, ": <f32/row>\n"));
  CHECK(has(s, "%columns = column_count : <i64>"));
  CHECK(has(s, "reduce_max %"));
  CHECK(has(message_of([] {
              make_recipe(
                  parse_optimizer("optimizer o \"\" { report r = norm(g, row)\nw = w - g }"));
            }),
            "reduce this"));
}
