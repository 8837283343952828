// Costs of steps with column values on the PTX machine: rows whose weights are aligned otherwise
// than the values of columns, and waits for the whole block in each row. Knows all layers.
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>

#include "compiler/cuda/emit.hpp"
#include "ir/semantics/interpreter.hpp"
#include "tests/ptx/device_runner.hpp"
#include "tests/support/needs_nvrtc.hpp"
#include "tests/support/random_data.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// A step of one matrix by two blocks; its bits are the interpreter's.
ptx::Counters cost_of(const std::string& recipe, uint64_t rows, uint64_t columns) {
  Program program = make_recipe(recipe);
  TestLayout layout;
  layout.add({.size = rows * columns, .columns = columns}, signature_of(program));
  TestData expected(program, layout, 1, Inputs::normal), actual(expected);
  interpret(program, expected.step());
  Variant variant = make_variant(program, layout.signatures);
  std::string text = emit_cuda(variant.plan);
  ptx::Counters counters =
      DeviceRunner(std::move(variant), text, 90).run(actual.step(), {.blocks = 2});
  CHECK(difference(program, expected, actual).value_or("") == "");
  return counters;
}

}  // namespace

TEST_CASE("rows of an odd number of columns are accessed by whole tiles") {
  STEPFUSE_NEEDS_NVRTC();
  for (const std::string recipe : {"adafactor", "sm3"}) {
    CAPTURE(recipe);
    auto even = static_cast<double>(cost_of(recipe, 70, 4096).instructions);
    auto odd = static_cast<double>(cost_of(recipe, 70, 4097).instructions);
    CHECK(odd < 1.2 * even);
  }
}

TEST_CASE("the rows of a strip are asked for before they are loaded") {
  STEPFUSE_NEEDS_NVRTC();
  // A strip of 64 rows and one of 6, by tiles of four, of the gradients and the weights. The machine refuses a
  // prefetch behind the last row.
  CHECK(cost_of("adafactor", 70, 4096).prefetches == 70 * 4096 / 4 * 2);
}

TEST_CASE("a block waits twice for each row of a phase of Adafactor") {
  STEPFUSE_NEEDS_NVRTC();
  // Its three phases take 64 rows more: one block all of them, in the first two for two folds, or
  // for the row's values and a fold, and in the last one for the row's values.
  ptx::Counters few = cost_of("adafactor", 2, 1024), many = cost_of("adafactor", 66, 1024);
  CHECK(many.barriers - few.barriers < 64 * 6 + 32);
}
