// Reductions to columns, of few and of very many strips, by one thread and several. Knows the CPU kernel.
#include <doctest/doctest.h>

#include "ir/program/builder.hpp"
#include "ir/semantics/interpreter.hpp"
#include "tests/support/kernel_runner.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// Every kind of reduction to columns, and what is made of them.
Program program() {
  Builder b("columns");
  BufferRef buffer = b.buffer("x", DType::f32, Access::inout);
  Value x = b.load(buffer);
  Value i = b.element_index();
  Value sum = b.reduce(Op::reduce_add, x, per::column);
  Value most = b.reduce(Op::reduce_max, i, per::column);
  Value least = b.reduce(Op::reduce_min, x, per::column);
  Value any = b.reduce(Op::reduce_any, x < sum, per::column);
  b.write(b.state("sum", sum.type()), sum);
  b.write(b.state("most", most.type()), most);
  b.write(b.state("least", least.type()), least);
  b.write(b.state("any", any.type()), any);
  b.write(b.report("all", {DType::f32, per::tensor}), b.reduce(Op::reduce_add, sum, per::tensor));
  b.store(buffer, x + sum, any);
  return b.finish();
}

}  // namespace

TEST_CASE("columns are reduced as defined, whoever does their strips") {
  struct Shape {
    uint64_t rows, columns;
  };
  // 2,048 strips are as many as there are lanes, 16,384 a piece of them.
  for (Shape s : {Shape{1, 300}, Shape{64, 40}, Shape{1000, 37}, Shape{130, 17000},
                  Shape{64 * 2048 + 70, 2}, Shape{64 * 16384 + 1, 1}}) {
    CAPTURE(s.rows);
    CAPTURE(s.columns);
    TestLayout layout;
    layout.add({.size = 3, .columns = 1}, {DType::f32});
    layout.add({.size = s.rows * s.columns, .columns = s.columns}, {DType::f32});
    Program p = program();
    TestData input(p, layout, s.rows, Inputs::normal);
    KernelRunner runner(p, input.step());
    TestData expected(input);
    interpret(p, expected.step());
    for (int threads : {1, 2}) {
      TestData own(input);
      runner.run(own.step(), CpuExecutor(threads));
      CHECK(difference(p, expected, own).value_or("") == "");
    }
  }
}
