// The kernels of the recipes, executed: the interpreter's bits for a pairwise covering set of
// options, forms, layouts, inputs, archs and grids, each in several interleavings.
#include <cstdlib>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "ir/error.hpp"
#include "tests/nvrtc/skip.hpp"
#include "tests/ptx/recipe_space.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

TEST_CASE("recipes: executed PTX gives the interpreter's bits for every pair of options") {
  STEPFUSE_NEEDS_NVRTC();
  std::vector<Factor> factors = program_factors();
  for (Factor& f : machine_factors()) factors.push_back(std::move(f));
  auto possible = [&](const Row& row) {
    try {
      Point point = point_of(factors, row);
      schedule_of(program_of(point), point);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  CoveringSet covering = pairwise_covering_set(factors, possible, 1);
  CHECK(covering.rows.size() > 20);
  uint64_t instructions = 0;
  for (size_t k = 0; k < covering.rows.size(); ++k) {
    Point point = point_of(factors, covering.rows[k]);
    Verdict verdict;
    try {
      verdict = compare_on_machine(point, k, {4 * k, 4 * k + 1 + k % 3}, 2);
    } catch (const std::exception& e) {
      verdict.fault = e.what();
    }
    instructions += verdict.counters.instructions;
    if (!verdict.fault.empty()) FAIL_CHECK("row ", k, ": ", describe(point), "\n", verdict.fault);
  }
  MESSAGE(fmt::format(
      "{} rows cover {} pairs ({} pairs contradict each other or are refused by name), {} M "
      "thread-instructions",
      covering.rows.size(), covering.covered, covering.contradictions.size(),
      instructions / 1000000));
}
