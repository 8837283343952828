// Random valid programs mean the same everywhere. Knows all layers.
//
// STEPFUSE_SEEDS=FIRST:COUNT chooses the programs; tools/fuzz.sh runs many such blocks.
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/printer.hpp>

#include "runtime/cpu/llvm_compiler.hpp"
#include "tests/differential/coverage.hpp"
#include "tests/differential/shrink.hpp"
#include "tests/support/check.hpp"
#include "tests/support/long_run.hpp"
#include "tests/support/rng.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kUsualCount = 200;  // sanitized code is slow, and finds other things
constexpr uint64_t kLongCount = 400;
#else
constexpr uint64_t kUsualCount = 800;
constexpr uint64_t kLongCount = 2600;
#endif

struct Seeds {
  uint64_t first = 1;
  uint64_t count = is_long_run() ? kLongCount : kUsualCount;
};
Seeds chosen_seeds() {
  Seeds seeds;
  if (const char* text = std::getenv("STEPFUSE_SEEDS")) {
    char* end = nullptr;
    seeds.first = std::strtoull(text, &end, 10);
    seeds.count = *end == ':' ? std::strtoull(end + 1, nullptr, 10) : 1;
  }
  return seeds;
}

// Mostly for the processor as it is, now and then for each level that it can run.
std::string level_of(const Case& c) {
  static const std::vector<std::string> levels = runnable_cpu_levels();
  Rng rng(c.seed, "level");
  return rng.chance(60) ? "host" : rng.pick(levels);
}

// Quick code for half of the programs, unless the run is long.
CpuCode code_of(const Case& c) {
  return !is_long_run() && Rng(c.seed, "code").chance(50) ? CpuCode::quick : CpuCode::optimized;
}

// The fused form and one other, or in a long run all of them.
std::vector<Form> forms_of(const Case& c) {
  if (is_long_run()) return {Form::fused, Form::split, Form::unfused};
  return {Form::fused, Rng(c.seed, "form").chance(50) ? Form::split : Form::unfused};
}

Fault check_all(const Case& c, CpuCount* count = nullptr) {
  try {
    if (Fault f = check_text(c)) return f;
    if (Fault f = check_passes(c)) return f;
    if (llvm_status().available) {
      CpuCheckOptions options{
          .level = level_of(c), .code = code_of(c), .forms = forms_of(c), .count = count};
      if (Fault f = check_cpu(c, options)) return f;
    }
  } catch (const std::exception& e) {
    return fmt::format("exception: {}", e.what());
  }
  return std::nullopt;
}

// The fault, how to see it again, and the smallest program that still has one of its kind: shrunk programs have
// names that do not survive printing.
std::string describe(const Case& c, const std::string& fault) {
  bool of_text = check_text(c).has_value();
  Program small = shrink(c.program, [&](const Program& p) {
    Case smaller(p, c.seed);
    return check_all(smaller) && check_text(smaller).has_value() == of_text;
  });
  Fault again = check_all(Case(small, c.seed));
  return fmt::format(
      "seed {}: {}\nreplay: STEPFUSE_SEEDS={}:1 build/bin/differential_test "
      "-tc='random programs*'\nshrunk to {} instructions ({}):\n{}",
      c.seed, fault, c.seed, small.size(), again.value_or("no fault: a flaky one"), print(small));
}

struct Outcome {
  Coverage coverage;
  CpuCount cpu;
  std::vector<std::string> faults;
};

Outcome run(Seeds seeds) {
  Outcome all;
  std::mutex mutex;
  std::atomic<uint64_t> next = 0;
  auto work = [&] {
    Outcome mine;
    for (uint64_t i = next++; i < seeds.count && mine.faults.size() < 3; i = next++) {
      Case c = random_case(seeds.first + i);
      mine.coverage.count(c.program, c.layout, c.inputs);
      if (Fault f = check_all(c, &mine.cpu)) mine.faults.push_back(describe(c, *f));
    }
    std::lock_guard lock(mutex);
    all.coverage.add(mine.coverage);
    all.cpu.programs += mine.cpu.programs;
    all.cpu.kernels += mine.cpu.kernels;
    all.cpu.runs += mine.cpu.runs;
    all.faults.insert(all.faults.end(), mine.faults.begin(), mine.faults.end());
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t) {
    threads.emplace_back(work);
  }
  for (std::thread& t : threads) t.join();
  return all;
}

}  // namespace

TEST_CASE("random programs mean the same after every pass and in every kernel") {
  Seeds seeds = chosen_seeds();
  Outcome outcome = run(seeds);
  CHECK(outcome.coverage.programs() > 0);
  for (const std::string& f : outcome.faults) FAIL_CHECK(f);
  MESSAGE(outcome.coverage.report());
  MESSAGE(fmt::format("CPU: {} programs in {} kernels and {} runs", outcome.cpu.programs,
                      outcome.cpu.kernels, outcome.cpu.runs));
  if (seeds.count < 800) return;  // a replay, or a sanitized run
  if (llvm_status().available && outcome.faults.empty())
    CHECK(5 * outcome.cpu.programs >= 4 * static_cast<int>(seeds.count));
  const int enough = static_cast<int>(seeds.count / 200);
  for (const std::string& l : outcome.coverage.lacking(enough)) {
    FAIL_CHECK("seen fewer than ", enough, " times: ", l);
  }
}
