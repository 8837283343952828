// The long run: for every row of the covering set every mode, arch, layout, input and grid, each in 20
// interleavings. Runs only with STEPFUSE_PTX_SOAK=FILE, where it notes what is done and goes on from
// there; tools/soak_ptx.sh starts it.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <numeric>
#include <set>
#include <tuple>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/ptx/recipe_space.hpp"
#include "tests/support/needs_nvrtc.hpp"
#include "tests/support/rng.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr uint64_t kInterleavings = 20;
// A unit is one point in a few of them, so that a part of the run has seen many points.
constexpr uint64_t kPerUnit = 4;

// The covering set's rows, then their product in no order, so that a part of the run is a sample of
// all.
std::vector<Row> all_rows(const Covering& covering) {
  std::vector<Row> rows = covering.set.rows;
  for (const char* name : {"mode", "arch", "layout", "inputs", "blocks"}) {
    size_t f = covering.factor(name);
    std::set<Row> more;
    for (const Row& row : rows) {
      for (size_t v = 0; v < covering.factors[f].values.size(); ++v) {
        Row other = row;
        other[f] = static_cast<int>(v);
        // Only the mode and the arch decide whether there is such a step.
        bool sure = name != std::string("mode") && name != std::string("arch");
        if (sure || is_possible(covering.point(other))) more.insert(other);
      }
    }
    rows.assign(more.begin(), more.end());
  }
  Rng rng(1);
  for (size_t k = rows.size(); k > 1; --k) std::swap(rows[k - 1], rows[rng.below(k)]);
  std::set<Row> first(covering.set.rows.begin(), covering.set.rows.end());
  std::stable_partition(rows.begin(), rows.end(), [&](const Row& r) { return first.contains(r); });
  return rows;
}

std::string name_of(const Point& point, uint64_t first_interleaving) {
  return fmt::format("interleavings {}+{}: {}", first_interleaving, kPerUnit, describe(point));
}

// Pairs of values that stand together in some row.
class Pairs {
 public:
  void add(const Row& row) {
    for (size_t f = 0; f < row.size(); ++f) {
      for (size_t g = f + 1; g < row.size(); ++g) seen_.insert({f, row[f], g, row[g]});
    }
  }
  size_t count() const { return seen_.size(); }

 private:
  std::set<std::tuple<size_t, int, size_t, int>> seen_;
};

// One line per finished unit; "FAULT" lines say what was found and stay open.
class Progress {
 public:
  explicit Progress(const std::string& path) : out_(path, std::ios::app) {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("done ")) done_.insert(line.substr(5));
    }
  }
  bool has(const std::string& unit) const { return done_.contains(unit); }
  void note(const std::string& unit, std::string fault) {
    std::replace(fault.begin(), fault.end(), '\n', ' ');
    out_ << (fault.empty() ? "done " + unit : "FAULT " + unit + ": " + fault) << std::endl;
    if (fault.empty()) done_.insert(unit);
  }

 private:
  std::ofstream out_;
  std::set<std::string> done_;
};

bool time_is_up() {
  static const auto start = std::chrono::steady_clock::now();
  const char* minutes = std::getenv("STEPFUSE_PTX_SOAK_MINUTES");
  if (minutes == nullptr || std::atoi(minutes) <= 0) return false;
  return std::chrono::steady_clock::now() - start > std::chrono::minutes(std::atoi(minutes));
}

}  // namespace

TEST_CASE("soak: the full product over the covering set") {
  const char* path = std::getenv("STEPFUSE_PTX_SOAK");
  if (path == nullptr) return;
  STEPFUSE_NEEDS_NVRTC();
  time_is_up();
  Covering covering = covering_rows();
  std::vector<Row> rows = all_rows(covering);
  Progress progress(path);
  Pairs pairs;
  uint64_t units = rows.size() * (kInterleavings / kPerUnit), done = 0, faults = 0;
  for (uint64_t u = 0; u < units; ++u) {
    uint64_t k = u % rows.size();
    uint64_t first = u / rows.size() * kPerUnit;
    Point point = covering.point(rows[k]);
    std::string unit = name_of(point, first);
    if (!progress.has(unit)) {
      if (time_is_up()) continue;  // what is done may stand further on
      std::vector<uint64_t> seeds(kPerUnit);
      std::iota(seeds.begin(), seeds.end(), first);
      std::string fault;
      try {
        fault = compare_on_machine(point, k, seeds, 2).fault;
      } catch (const std::exception& e) {
        fault = e.what();
      }
      progress.note(unit, fault);
      if (!fault.empty()) {
        ++faults;
        FAIL_CHECK(unit, "\n", fault);
        continue;
      }
    }
    ++done;
    pairs.add(rows[k]);
    if (done % 500 == 0) std::cerr << fmt::format("{} of {} units\n", done, units);
  }
  std::cout << fmt::format(
      "{} of {} units done ({} interleavings of one of {} points each); {} of {} pairs of values; "
      "{} faults\n",
      done, units, kPerUnit, rows.size(), pairs.count(), covering.set.covered, faults);
}
