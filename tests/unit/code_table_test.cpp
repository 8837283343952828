// Code tables: what lookup and nearest say, the bounds that backends search, and tables as text.
#include "ir/formats/code_table.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>

#include "ir/program/unused.hpp"
#include "tests/support/file_faults.hpp"
#include "tests/support/messages.hpp"

using namespace stepfuse;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max();

// By walking along all values: the last one that is not above, and whether the next is nearer.
int32_t walked(const std::vector<float>& values, float x) {
  int32_t code = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (x >= values[i]) code = static_cast<int32_t>(i);
  }
  auto at = static_cast<size_t>(code);
  bool up = at + 1 < values.size() && x - values[at] >= (values[at + 1] - values[at]) * 0.5F;
  return up ? code + 1 : code;
}

int32_t counted(const std::vector<float>& bounds, float x) {
  int32_t code = 0;
  for (float b : bounds) code += b <= x ? 1 : 0;
  return code;
}

std::string with_table(const std::string& values) {
  return "step @t {\n  table @map : f32 = " + values + R"(
  buffer @x : f32 inout
  %x = load @x : [f32]
  %code = nearest @map, %x : [i32]
  %y = lookup @map, %code : [f32]
  store @x, %y
}
)";
}

std::string refusal(const std::string& text) {
  return testing::message_of([&] { parse(text); });
}

}  // namespace

TEST_CASE("tables: a code beyond the ends is the end's") {
  const std::vector<float> values = {-1, 0, 2};
  CHECK(table_value(values, -5) == -1);
  CHECK(table_value(values, 1) == 0);
  CHECK(table_value(values, 2) == 2);
  CHECK(table_value(values, std::numeric_limits<int32_t>::max()) == 2);
}

TEST_CASE("tables: the nearest code, the upper one from the middle on") {
  const std::vector<float> values = {-1, 0, 2};
  CHECK(nearest_code(values, -kInf) == 0);
  CHECK(nearest_code(values, std::nextafter(-0.5F, -1.0F)) == 0);
  CHECK(nearest_code(values, -0.5F) == 1);
  CHECK(nearest_code(values, -0.0F) == 1);
  CHECK(nearest_code(values, std::nextafter(1.0F, 0.0F)) == 1);
  CHECK(nearest_code(values, 1) == 2);
  CHECK(nearest_code(values, kInf) == 2);
  CHECK(nearest_code(values, std::numeric_limits<float>::quiet_NaN()) == 0);
}

TEST_CASE("tables: bounds make the same codes") {
  std::mt19937 random(3);
  std::vector<std::vector<float>> tables = {{0, std::numeric_limits<float>::denorm_min()},
                                            {-kMost, kMost},
                                            {-kMost, -1, -0.0F, 1e-40F, kMost}};
  for (int t = 0; t < 20; ++t) {
    std::vector<float> values = {-2};
    while (values.size() < 40) {
      float step = std::ldexp(1.0F + static_cast<float>(random() % 100) / 100,
                              static_cast<int>(random() % 30) - 32);
      values.push_back(std::max(values.back() + step, std::nextafter(values.back(), kInf)));
    }
    tables.push_back(values);
  }
  for (const std::vector<float>& values : tables) {
    std::vector<float> bounds = table_bounds(values);
    REQUIRE(bounds.size() == values.size() - 1);
    std::vector<float> xs = {
        0, -0.0F, kInf, -kInf, kMost, -kMost, std::numeric_limits<float>::quiet_NaN()};
    std::vector<float> near = values;
    near.insert(near.end(), bounds.begin(), bounds.end());
    for (float v : near)
      xs.insert(xs.end(), {v, std::nextafter(v, kInf), std::nextafter(v, -kInf)});
    for (float x : xs) {
      CAPTURE(x);
      CHECK(nearest_code(values, x) == walked(values, x));
      CHECK(counted(bounds, x) == walked(values, x));
    }
  }
}

TEST_CASE("tables: text, and what is refused") {
  Program p = parse(with_table("-1, 0, 0.5,\n   1"));
  CHECK(p.tables[0].values == std::vector<float>{-1, 0, 0.5F, 1});
  CHECK(print(parse(print(p))) == print(p));
  CHECK(print(p).find("%code = nearest @map, %x : [i32]") != std::string::npos);
  std::vector<float> many(256);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<float>(i) / 7;
  p.tables[0].values = many;
  CHECK(parse(print(p)).tables == p.tables);

  for (const char* values : {"1", "0, 0", "1, 0", "0, inf", "nan, 1"}) {
    CAPTURE(values);
    CHECK(refusal(with_table(values)).find("[V18]") != std::string::npos);
  }
  many.push_back(100);
  std::string list = "-1";
  for (float v : many) list += ", " + std::to_string(v);
  CHECK(refusal(with_table(list)).find("[V18]") != std::string::npos);
  std::string text = with_table("0, 1");
  CHECK(refusal(testing::replaced(text, "nearest @map", "nearest @mop"))
            .find("undefined table @mop") != std::string::npos);
  CHECK(refusal(testing::replaced(text, "lookup @map, %code", "lookup @map, %x"))
            .find("lookup takes i32") != std::string::npos);
  CHECK(refusal(testing::replaced(text, ": [i32]", ": [f32]")).find("[V2]") != std::string::npos);
  CHECK(refusal(testing::replaced(text, "buffer", "table @map : f32 = 0, 1\n  buffer"))
            .find("two tables have the name 'map'") != std::string::npos);
  std::string unused = testing::replaced(text, "buffer", "table @other : f32 = 0, 1\n  buffer");
  REQUIRE(find_unused(parse(unused)).size() == 1);
  CHECK(find_unused(parse(unused))[0].message.find("@other") != std::string::npos);
}
