// Parser and printer: print(parse(text)) is a fixed point, and errors point at their cause.
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>

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
