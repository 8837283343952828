// Table lookup of functions of one loaded byte, in bodies with blocks of many sizes: every
// processor level equals the interpreter. Other values are not mistaken for functions of a byte.
#include <doctest/doctest.h>

#include "compiler/plan/plan.hpp"
#include "ir/program/builder.hpp"
#include "tests/support/kernel_runner.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

Program program_of_bytes() {
  Builder b("bytes");
  TableRef table = b.table("map", {-2, -0.5F, 0, 0.25F, 1, 3, 1e20F});
  auto load = [&](const char* name, DType t) { return b.load(b.buffer(name, t, Access::in)); };
  auto keep = [&](const char* name, Value v) {
    b.store(b.buffer(name, DType::f32, Access::out, v.type().at), v);
  };
  Value natural = b.cast(load("u8", DType::u8), DType::i32);
  Value whole = b.cast(load("i8", DType::i8), DType::i32);
  Value seven = b.constant(DType::f32, 7);
  Value third = b.cast(whole, DType::f32) / seven;
  Value size = abs(third) + b.constant(DType::f32, 0.125);
  keep("looked_up", b.lookup(table, natural));
  keep("quotient", third / size);
  keep("third", third);
  keep("finite", b.cast(load("f8e4m3", DType::f8e4m3), DType::f32));
  keep("wide", b.cast(load("f8e5m2", DType::f8e5m2), DType::f32));
  keep("of_two", b.cast(natural, DType::f32) / b.cast(whole, DType::f32));
  keep("of_place", b.cast(natural + b.element_index(), DType::f32) / seven);
  keep("largest", b.reduce(Op::reduce_max, third, per::block(32)));
  return b.finish();
}

}  // namespace

TEST_CASE("functions of a byte are looked up as they are computed") {
  Program p = program_of_bytes();
  TestLayout layout;
  for (uint64_t size : {5000, 1024, 1023, 700, 256, 77, 1}) {
    layout.add({.size = size, .shift = size % 2 == 0 ? 0U : 3U}, signature_of(p));
  }
  for (const std::string& level : runnable_cpu_levels()) {
    CAPTURE(level);
    TestData input(p, layout, 3, Inputs::normal);
    CHECK(compare_with_interpreter(p, input, {.level = level}) == "");
  }
}

TEST_CASE("one value may be another function of its byte in each signature") {
  Builder b("signatures");
  Value loaded = b.load(b.buffer("codes", DType::u8, Access::in));
  BufferRef either = b.buffer("either", DTypeSet(DType::f32) | DType::bf16, Access::out);
  Value whole = b.cast(b.cast(loaded, DType::i32), DType::f32);
  Value rounded = b.cast_to_buffer(whole / b.constant(DType::f32, 3), either);
  b.store(either, rounded);
  Value twice = b.cast(rounded, DType::f32) + b.cast(rounded, DType::f32);
  Value largest = b.reduce(Op::reduce_max, twice, per::block(32));
  b.store(b.buffer("largest", DType::f32, Access::out, per::block(32)), largest);
  Program p = b.finish();
  TestLayout layout;
  for (DType t : {DType::f32, DType::bf16}) layout.add({.size = 700}, signature_of(p, t));
  for (const std::string& level : runnable_cpu_levels()) {
    CAPTURE(level);
    TestData input(p, layout, 3, Inputs::normal);
    CHECK(compare_with_interpreter(p, input, {.level = level}) == "");
  }
}
