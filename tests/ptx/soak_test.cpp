// The long run: for every row of the covering set every form, arch, layout, input, grid and 20
// interleavings. Runs only with STEPFUSE_PTX_SOAK=FILE, where it notes what is done and goes on
// from there; tools/soak_ptx.sh starts it.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <numeric>
#include <set>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "ir/error.hpp"
#include "tests/differential/rng.hpp"
#include "tests/nvrtc/skip.hpp"
#include "tests/ptx/recipe_space.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr int kInterleavings = 20;

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
  size_t count() const { return done_.size(); }
  void note(const std::string& unit, const std::string& fault) {
    out_ << (fault.empty() ? "done " + unit : "FAULT " + unit + ": " + fault) << std::endl;
    if (fault.empty()) done_.insert(unit);
  }

 private:
  std::ofstream out_;
  std::set<std::string> done_;
};

size_t factor_index(const std::vector<Factor>& factors, const std::string& name) {
  size_t i = 0;
  while (factors[i].name != name) ++i;
  return i;
}

// Every combination of the named factors' values, on top of a point.
void for_each_point(Point point, const std::vector<Factor>& all, std::vector<std::string> names,
                    const std::function<void(const Point&)>& visit) {
  if (names.empty()) return visit(point);
  std::string name = names.back();
  names.pop_back();
  for (const std::string& value : all[factor_index(all, name)].values) {
    point[name] = value;
    for_each_point(point, all, names, visit);
  }
}

}  // namespace

TEST_CASE("soak: the full product over the covering set") {
  const char* path = std::getenv("STEPFUSE_PTX_SOAK");
  if (path == nullptr) return;
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
  Progress progress(path);
  std::vector<Point> units;
  for (const Row& row : covering.rows) {
    for_each_point(point_of(factors, row), factors, {"blocks", "inputs", "layout", "arch", "form"},
                   [&](const Point& point) { units.push_back(point); });
  }
  // In no order, so that a part of the run is a sample of all.
  Rng rng(1);
  for (size_t k = units.size(); k > 1; --k) std::swap(units[k - 1], units[rng.below(k)]);
  std::vector<uint64_t> seeds(kInterleavings);
  std::iota(seeds.begin(), seeds.end(), 0);
  for (size_t k = 0; k < units.size(); ++k) {
    std::string unit = describe(units[k]);
    if (progress.has(unit)) continue;
    std::string fault;
    try {
      fault = compare_on_machine(units[k], k, seeds, 2).fault;
    } catch (const std::exception& e) {
      fault = e.what();
    }
    progress.note(unit, fault);
    if (!fault.empty()) FAIL_CHECK(unit, "\n", fault);
    if (k % 100 == 0) std::cerr << fmt::format("{} of {} units\n", k, units.size());
  }
  MESSAGE(fmt::format("{} of {} units of {} interleavings done", progress.count(), units.size(),
                      kInterleavings));
}
