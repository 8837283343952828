// The kernels of the recipes, executed: the interpreter's bits for pairwise covering sets of options,
// modes, layouts, inputs, archs and grids, each in several interleavings.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/ptx/recipe_space.hpp"
#include "tests/support/needs_nvrtc.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// One has every pair, and takes minutes; tools/soak_ptx.sh goes on from there.
constexpr uint64_t kSets = 1;

struct Found {
  uint64_t instructions = 0;
  std::vector<std::string> faults;
};

Found execute(const Covering& covering, uint64_t set) {
  Found found;
  std::mutex mutex;
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t k = next++; k < covering.rows.size(); k = next++) {
      Point point = covering.point(covering.rows[k]);
      Verdict verdict;
      uint64_t first = 1000 * set + 4 * k;
      try {
        verdict = compare_on_machine(point, first, {first, first + 1 + k % 3, first + 500}, 2);
      } catch (const std::exception& e) {
        verdict.fault = e.what();
      }
      std::lock_guard lock(mutex);
      found.instructions += verdict.counters.instructions;
      if (!verdict.fault.empty()) {
        found.faults.push_back(fmt::format("{}\n{}", describe(point), verdict.fault));
      }
    }
  };
  std::vector<std::thread> threads;
  unsigned count = std::clamp(std::thread::hardware_concurrency(), 1U, 4U);
  for (unsigned t = 0; t < count; ++t) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  return found;
}

// Options come from one table, so nobody can add one that is not executed.
void check_every_value(const Covering& covering) {
  for (size_t f = 0; f < covering.factors.size(); ++f) {
    for (size_t v = 0; v < covering.factors[f].values.size(); ++v) {
      CAPTURE(covering.factors[f].name);
      CAPTURE(covering.factors[f].values[v]);
      CHECK(std::any_of(covering.rows.begin(), covering.rows.end(),
                        [&](const Row& row) { return row[f] == static_cast<int>(v); }));
    }
  }
}

}  // namespace

TEST_CASE("recipes: executed PTX gives the interpreter's bits for every pair of options") {
  STEPFUSE_NEEDS_NVRTC();
  for (uint64_t set = 1; set <= kSets; ++set) {
    Covering covering = covering_rows(set);
    CHECK(covering.rows.size() > 20);
    check_every_value(covering);
    Found found = execute(covering, set);
    for (const std::string& fault : found.faults) FAIL_CHECK("set ", set, ": ", fault);
    MESSAGE(fmt::format(
        "{} rows cover {} pairs ({} pairs contradict each other or are refused by "
        "name), {} M thread-instructions",
        covering.rows.size(), covering.pairs, covering.refused, found.instructions / 1000000));
  }
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
