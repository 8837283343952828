// Several small blocks computed at once: folds in order, values of larger blocks and of all
// elements, stores, and chunks that end within such blocks. Every processor level equals the
// interpreter.
#include <doctest/doctest.h>

#include "ir/program/builder.hpp"
#include "tests/support/kernel_runner.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

Program program_of_blocks(int32_t size) {
  Builder b("blocks");
  Value x = b.load(b.buffer("x", DType::f32, Access::in));
  Value i = b.load(b.buffer("i", DType::i32, Access::in));
  Value shared = b.load(b.buffer("shared", DType::f32, Access::in, per::block(size)));
  int number = 0;
  auto keep = [&](Value v) {
    BufferRef out =
        b.buffer("out" + std::to_string(number++), v.type().dtype, Access::out, v.type().at);
    b.store(out, v);
  };
  Value sum = b.reduce(Op::reduce_add, x, per::block(size));
  Value largest = b.reduce(Op::reduce_max, abs(x), per::block(size));
  Value half = b.constant(DType::f32, 0.5);
  keep(sum);
  keep(largest);
  keep(b.reduce(Op::reduce_min, x, per::block(size)));
  keep(b.reduce(Op::reduce_add, i, per::block(size)));
  keep(b.reduce(Op::reduce_max, i, per::block(size)));
  Value of_larger = b.reduce(Op::reduce_max, x, per::block(256));
  keep(sum * shared + of_larger);
  keep(b.reduce(Op::reduce_add, x * (largest + half), per::block(size)));
  keep(x / (sum + shared));
  keep(x - of_larger * half);
  return b.finish();
}

}  // namespace

TEST_CASE("small blocks are folded, computed and stored by vectors as one by one") {
  for (int32_t size : {8, 16, 32, 64, 128}) {
    Program p = program_of_blocks(size);
    TestLayout layout;
    for (uint64_t count : {5000, 1024, 1023, 700, 256, 129, 77, 16, 1}) {
      layout.add({.size = count, .shift = count % 2 == 0 ? 0U : 3U}, signature_of(p));
    }
    for (const std::string& level : runnable_cpu_levels()) {
      CAPTURE(level);
      CAPTURE(size);
      for (Inputs inputs : {Inputs::normal, Inputs::special}) {
        TestData input(p, layout, 9, inputs);
        CHECK(compare_with_interpreter(p, input, {.level = level}) == "");
      }
    }
  }
}
