// Parser and printer: print(parse(text)) is a fixed point, and errors point at their cause.
#include <algorithm>
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>

#include "ir/semantics/semantics.hpp"

using namespace stepfuse;

namespace {
constexpr const char* kScaledSgd = R"(step @scaled_sgd {
  buffer @grad : f16|bf16|f32 in
  buffer @weight : f32 inout
  buffer @exp_avg : f32 inout = 0
  buffer @ema : f32 inout = @weight
  state @scale : f32 shared = 65536
  state @step : <i64>
  report @grad_norm : f32
  arg %lr : {f64} = 0.001
  stage unscale
  %scale = read @scale : f32
  %inv = rcp %scale : f32
  %raw = load @grad : [@grad]
  %g32 = cast %raw : [f32]
  %g = mul %g32, %inv : [f32]
  %finite = isfinite %g32 : [bool]
  %bad = not %finite : [bool]
  stage norm
  %sq = mul %g, %g : [f32]
  %sum = reduce_add %sq : f32
  %any = reduce_any %bad : bool
  %norm = sqrt %sum : f32
  %ok = not %any : bool
  stage update
  %lr32 = cast %lr : {f32}
  %w = load @weight : [f32]
  %d = mul %lr32, %g : [f32]
  %w1 = sub %w, %d : [f32]
  store @weight, %w1 if %ok
  %t = read @step : <i64>
  %one = const 1 : i64
  %t1 = add %t, %one : <i64>
  write @step, %t1 if %ok
  write @grad_norm, %norm
}
)";
}  // namespace

TEST_CASE("print(parse(text)) is a fixed point") {
  Program p = parse(kScaledSgd);
  CHECK(print(p) == kScaledSgd);
  CHECK(parse(print(p)) == p);
}

TEST_CASE("constants print so that they parse to the same bits") {
  for (const char* text : {"0.1 : f32", "-0 : f32", "1e-45 : f32", "inf : f64", "-inf : f32",
                           "nan : f32", "bits(0x7fc00001) : f32", "6.1e-05 : f16", "nan : bf16",
                           "true : bool", "-9223372036854775808 : i64", "0.1 : f64"}) {
    std::string source = std::string("step @s {\n  report @r : f32\n  %c = const ") + text +
                         "\n  %z = const 0 : f32\n  write @r, %z\n}\n";
    Program p = parse(source);
    CHECK(parse(print(p)) == p);
    CHECK(print(parse(print(p))) == print(p));
  }
}

TEST_CASE("decimal literals are read to the nearest value, below the smallest too") {
  struct Case {
    const char* text;
    uint64_t bits;
  };
  for (Case c : {Case{"1e-50 : f32", 0},
                 {"-1e-50 : f32", 0x80000000},
                 {"1e-50 : f16", 0},
                 {"-1e-9 : bf16", 0xb089},
                 {"-1e-60 : bf16", 0x8000},
                 {"1e-400 : f64", 0},
                 {"1e-400 : f32", 0},
                 {"0.00001e-99999999999999999999 : f32", 0},
                 {"0.0000000000000000000000000000000000000000000000000000000000001e5 : f32", 0},
                 {"7.1e-46 : f32", 1},
                 {"7.0e-46 : f32", 0},
                 {"3e-8 : f16", 1},
                 {"65519 : f16", 0x7bff},
                 {"-nan : f32", 0x7fc00000},
                 {"-nan : f64", 0x7ff8000000000000},
                 {"-nan : f16", 0x7fff},
                 {"-nan : bf16", 0x7fff}}) {
    CAPTURE(c.text);
    Program p = parse(std::string("step @s {\n  report @r : f32\n  %c = const ") + c.text +
                      "\n  %z = const 0 : f32\n  write @r, %z\n}\n");
    CHECK(p.insts[0].literal.raw == c.bits);
  }
  for (const char* text : {"1e50 : f32", "-1e400 : f64", "65520 : f16", "3.4e38 : bf16",
                           "1e99999999999999999999 : f32", "100000e40 : f32"}) {
    CAPTURE(text);
    std::string source = std::string("step @s {\n  report @r : f32\n  %c = const ") + text +
                         "\n  %z = const 0 : f32\n  write @r, %z\n}\n";
    CHECK_THROWS_WITH_AS(parse(source), doctest::Contains("write inf, or less"), Error);
  }
}

TEST_CASE("16-bit literals print as the shortest text, and parse back") {
  CHECK(literal_text({0x2e66}, DType::f16) == "0.1");
  CHECK(literal_text({0x3dcd}, DType::bf16) == "0.1");
  CHECK(literal_text({0x7bff}, DType::f16) == "65504");
  CHECK(literal_text({1}, DType::f16) == "6e-08");
  for (DType t : {DType::f16, DType::bf16}) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      float value = sem::cast({bits}, t, DType::f32).f32();
      if (!std::isfinite(value)) continue;
      std::string text = literal_text({bits}, t);
      auto nearest = [&](double decimal) {
        return sem::cast(Bits::of(static_cast<float>(decimal)), DType::f32, t).raw;
      };
      size_t e = text.find('e');
      REQUIRE(nearest(std::stod(text)) == bits);
      // One digit less, rounded up or down, is another value.
      if (e == std::string::npos || value == 0) continue;
      size_t digits = std::min(e, text.size()) - (text[0] == '-' ? 1U : 0U);
      if (digits < 3) continue;
      std::string shorter = text.substr(0, e - 1) + text.substr(e);
      double down = std::stod(shorter);
      double unit = std::pow(10.0, std::stoi(text.substr(e + 1)) - (static_cast<int>(digits) - 3));
      double up = down + std::copysign(unit, down);
      CHECK_MESSAGE(nearest(down) != bits, text);
      CHECK_MESSAGE(nearest(up) != bits, text);
    }
  }
}

TEST_CASE("a parse error has file, line, column and a caret") {
  std::string message;
  try {
    parse("step @s {\n  %a = foo : f32\n}\n", "my.sf");
  } catch (const Error& e) {
    message = e.what();
    CHECK(e.kind() == ErrorKind::parse);
    CHECK(e.loc().line == 2);
  }
  CHECK(message ==
        "my.sf:2:8: error: unknown op 'foo': ir/README.md lists the ops\n"
        "    %a = foo : f32\n"
        "         ^");
}
