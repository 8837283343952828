// The pass manager: order, rounds, trace, clock. Knows ir and compiler.
#include "compiler/passes/pass_manager.hpp"

#include <set>

#include "tests/unit/pass_testing.hpp"

using namespace stepfuse;

namespace {
constexpr const char* kBody = R"(  buffer @g : f16|bf16|f32 in
  buffer @w : f32 inout
  arg %lr : {f64}
  %g = load @g : [@g]
  %g32 = cast %g : [f32]
  %t = const true : bool
  %s = select %t, %g32, %g32 : [f32]
  %lr32 = cast %lr : {f32}
  %d = mul %s, %lr32 : [f32]
  %w0 = load @w : [f32]
  %w1 = sub %w0, %d : [f32]
  store @w, %w1 if %t
)";
const std::vector<Signature> kF32 = {{DType::f32, DType::f32}};
}  // namespace

TEST_CASE("optimize runs the whole list") {
  Program p = optimize(testing::parse_body(kBody), kF32);
  CHECK(print(p) == R"(step @t {
  buffer @g : f32 in
  buffer @w : f32 inout
  arg %lr : {f64}
  %g = load @g : [f32]
  %lr32 = cast %lr : {f32}
  %d = mul %g, %lr32 : [f32]
  %w0 = load @w : [f32]
  %w1 = sub %w0, %d : [f32]
  store @w, %w1
}
)");
  CHECK(optimize(p, kF32) == p);
}

TEST_CASE("optimize repeats the list until nothing changes") {
  // The root has a constant operand only after the first round's simplify.
  PassTrace trace;
  Program p = optimize(testing::parse_body(R"(  report @r : f32
  arg %a : f32
  %t = const true : bool
  %c1 = const 1 : f32
  %x = select %t, %c1, %a : f32
  %n = sqrt %x : f32
  %s = mul %a, %n : f32
  write @r, %s
)"),
                       {}, &trace);
  CHECK(print(p) == "step @t {\n  report @r : f32\n  arg %a : f32\n  write @r, %a\n}\n");
  CHECK(trace.records.back().round >= 3);
  CHECK_FALSE(trace.records.back().changed);
}

TEST_CASE("the trace names every pass of the list, what it did and how long it took") {
  double now = 0;
  PassTrace trace;
  trace.clock = [&] { return now += 0.5; };
  Program p = testing::parse_body(kBody);
  Program result = optimize(p, kF32, &trace);
  auto passes = optimization_passes();
  REQUIRE(trace.records.size() >= passes.size());
  std::set<std::string_view> names;
  for (size_t i = 0; i < passes.size(); ++i) {
    CHECK(trace.records[i].name == passes[i].name);
    CHECK(trace.records[i].seconds == 0.5);
    CHECK(names.insert(passes[i].name).second);
  }
  CHECK(trace.input == p);
  std::string text = print(trace);
  CHECK(text.starts_with("; before\nstep @t {"));
  CHECK(text.find("; after bind dtypes (10 -> 10 instructions)\nstep @t {") != std::string::npos);
  CHECK(text.find("; after fold constants: unchanged\n") != std::string::npos);
  CHECK(text.find(print(result)) != std::string::npos);
}
