// The kernels of the recipes, executed, have the interpreter's bits: options, forms, layouts, inputs, archs and grids,
// each in several interleavings. The usual run has every value of each of them, and the long run every pair; NVRTC
// takes seconds for some of these kernels. tools/soak_ptx.sh goes on from there.
#include <algorithm>
#include <atomic>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/ptx/recipe_space.hpp"
#include "tests/support/needs_nvrtc.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// Options come from one table, so nobody can add one that is not executed.
void check_every_value(const Covering& covering, const std::vector<Row>& rows) {
  for (size_t f = 0; f < covering.factors.size(); ++f) {
    for (size_t v = 0; v < covering.factors[f].values.size(); ++v) {
      CAPTURE(covering.factors[f].name);
      CAPTURE(covering.factors[f].values[v]);
      CHECK(std::any_of(rows.begin(), rows.end(),
                        [&](const Row& row) { return row[f] == static_cast<int>(v); }));
    }
  }
}

}  // namespace

TEST_CASE("recipes: executed PTX gives the interpreter's bits for every value of every option") {
  STEPFUSE_NEEDS_NVRTC();
  Covering covering = covering_rows();
  std::vector<Row> rows = cheap_rows(
      covering.set, [&](const Row& row) { return compile_cost(covering.point(row)); }, 0.7);
  CHECK(rows.size() > 20);
  check_every_value(covering, rows);
  std::atomic<uint64_t> instructions = 0;
  std::vector<std::string> faults = faults_of(rows.size(), [&](size_t k) -> std::string {
    Point point = covering.point(rows[k]);
    uint64_t first = 1000 + 4 * k;
    try {
      Verdict v = compare_on_machine(point, first, {first, first + 1 + k % 3, first + 500}, 2);
      instructions += v.counters.instructions;
      return v.fault.empty() ? "" : fmt::format("{}\n{}", describe(point), v.fault);
    } catch (const std::exception& e) {
      return fmt::format("{}\n{}", describe(point), e.what());
    }
  });
  for (const std::string& fault : faults) FAIL_CHECK(fault);
  MESSAGE(fmt::format("{} of {} rows, {} of {} pairs, {} M thread-instructions", rows.size(),
                      covering.set.rows.size(), pairs_in(rows), covering.set.covered,
                      instructions / 1000000));
}

TEST_CASE("rounding to the gradient's type where no gradient is loaded follows each tensor's own") {
  STEPFUSE_NEEDS_NVRTC();
  Covering space{.factors = recipe_factors()};
  Point point = space.point(Row(space.factors.size()));
  point["grad"] = "f16|bf16|f32";
  point["loss-scale"] = "dynamic";
  point["clip"] = "value";
  point["round-grad"] = "true";
  point["mode"] = "unfused";
  point["inputs"] = "tiny";
  CHECK(compare_on_machine(point, 1, {1}, 1).fault.empty());
}
