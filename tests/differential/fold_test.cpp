// The canonical fold, by the interpreter and by compiled CPU kernels: what ir/semantics/reduction.hpp defines.
// Knows all layers.
#include <doctest/doctest.h>

#include "ir/semantics/interpreter.hpp"
#include "runtime/cpu/cpu_executor.hpp"
#include "tests/support/fold_case.hpp"
#include "tests/support/kernel_runner.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

TEST_CASE("parts of all sizes are folded as defined: interpreter and CPU") {
  for (bool nan : {false, true}) {
    FoldCase c(nan);
    TestData interpreted(c.data());
    interpret(c.program(), interpreted.step());
    CHECK(c.difference(interpreted.step()) == "");
    CHECK(c.difference(c.data().step()) != "");  // nothing is made yet
    for (const char* level : {"host", "x86-64"}) {
      TestData actual(c.data());
      KernelRunner(c.program(), actual.step(), {.level = level}).run(actual.step(), CpuExecutor(1));
      CHECK(c.difference(actual.step()) == "");
    }
  }
}
