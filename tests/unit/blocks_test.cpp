// Blocks of elements that share a value: text, rules, and what the interpreter makes of them.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>

#include "ir/semantics/interpreter.hpp"

using namespace stepfuse;

namespace {

constexpr const char* kText = R"(step @blocks {
  buffer @x : f32 inout
  buffer @scale : <f32/16> inout
  buffer @any : f32 out
  %x = load @x : [f32]
  %before = load @scale : <f32/16>
  %sum = reduce_add %x : <f32/16>
  %wide = reduce_max %x : <f32/32>
  %negative = lt %x, 0 : [bool]
  %has = reduce_any %negative : <bool/16>
  %shared = mul %before, %wide : <f32/16>
  %moved = add %x, %shared : [f32]
  %one = select %has, 1, 2 : <f32/16>
  store @x, %moved
  store @scale, %sum if %has
  store @any, %one
}
)";

// Floats whose sum depends on the order.
float value(size_t i) {
  return std::ldexp(1.0F, static_cast<int>(i * 7 % 30)) * (i % 3 == 1 ? -1.0F : 1.0F);
}

std::string problem(const std::string& line, const std::string& declared = "") {
  std::string text = "step @s {\n  buffer @x : f32 inout\n" + declared +
                     "  %x = load @x : [f32]\n" + line + "\n  store @x, %x\n}\n";
  try {
    parse(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("blocks: printing and parsing are inverse") {
  Program p = parse(kText);
  CHECK(print(parse(print(p))) == print(p));
  CHECK(contains(print(p), "buffer @scale : <f32/16> inout"));
  CHECK(contains(print(p), "%has = reduce_any %negative : <bool/16>"));
  CHECK(p.buffers[1].count(37, 37) == 3);
  CHECK(p.buffers[0].count(37, 37) == 37);
}

TEST_CASE("blocks: sums by halving, and what is behind the tensor's end changes nothing") {
  constexpr size_t kSize = 37;
  std::vector<float> x(kSize);
  for (size_t i = 0; i < kSize; ++i) x[i] = value(i);
  std::vector<float> given = x;
  std::vector<float> scale = {2, 3, 4};
  std::vector<float> any(kSize, 0);
  StepData data;
  data.tensors.push_back({.size = kSize,
                          .data = {x.data(), scale.data(), any.data()},
                          .dtypes = {DType::f32, DType::f32, DType::f32}});
  interpret(parse(kText), data);
  const float before[] = {2, 3, 4};
  for (size_t b = 0; b < 3; ++b) {
    float lanes[16] = {};
    bool has = false;
    for (size_t i = 16 * b; i < std::min(kSize, 16 * b + 16); ++i) {
      lanes[i % 16] = given[i];
      has |= given[i] < 0;
    }
    for (size_t d = 8; d > 0; d /= 2) {
      for (size_t l = 0; l < d; ++l) lanes[l] = lanes[l] + lanes[l + d];
    }
    CHECK(scale[b] == (has ? lanes[0] : before[b]));
    CHECK(any[16 * b] == (has ? 1 : 2));
  }
  for (size_t i = 0; i < kSize; ++i) {
    float widest = -INFINITY;
    for (size_t k = i / 32 * 32; k < std::min(kSize, i / 32 * 32 + 32); ++k) {
      widest = std::max(widest, given[k]);
    }
    CHECK(x[i] == given[i] + before[i / 16] * widest);
  }
}

TEST_CASE("blocks: what is refused says so") {
  CHECK(
      contains(problem("  %m = reduce_max %x : <f32/24>"), "write one of 8, 16, 32, 64, 128, 256"));
  CHECK(contains(problem("  %m = reduce_max %x : <f32/512>"),
                 "'512' is neither a block nor a square"));
  CHECK(contains(problem("  %m = reduce_max %x : <f32/32>\n  %n = reduce_max %m : <f32/64>"),
                 "the values of blocks are not reduced further"));
  CHECK(contains(problem("  %m = reduce_max %x : <f32/32>\n  %n = reduce_add %m : f32"), "[V3]"));
  CHECK(contains(problem("  %m = neg %x : <f32/32>"), "its finest operand: [f32]"));
  CHECK(contains(problem("  store @s, %x", "  buffer @s : <f32/32> out\n"),
                 "is finer: reduce it first"));
  CHECK(contains(
      problem("  %p = lt %x, 0 : [bool]\n  store @s, 1 if %p", "  buffer @s : <f32/32> out\n"),
      "not finer than per block of 32"));
  CHECK(contains(problem("", "  state @s : <f32/32>\n"), "[V14]"));
  CHECK(contains(problem("  %i = cast %x : [i8]"), "u8, i8, i16 are cast from and to i32 only"));
  CHECK(contains(problem("", "  buffer @s : i8|u8 in\n"), "[V13]"));
  CHECK(problem("  %m = reduce_max %x : <f32/32>\n  store @s, %m", "  buffer @s : f32 out\n")
            .empty());
}
