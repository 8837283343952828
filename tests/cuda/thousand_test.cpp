// A thousand steps over a tiny layout: the calls that each may make to host and driver, and a graph
// that is replayed as often gives the bits of eager runs.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/checkpoint.hpp>

#include "tests/cuda/fake_device.hpp"
#include "tests/support/graph.hpp"
#include "tests/support/host_calls.hpp"
#include "tests/support/trainer.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

const Trainer::Sizes kTiny = {5, 1, 3};
constexpr int kSteps = 1000;

using Calls = std::map<std::string, uint64_t>;

// The calls of each function in `allowed`, and those of all others together.
Calls calls_so_far(const Calls& allowed) {
  Calls out;
  uint64_t named = 0;
  for (const auto& [name, count] : allowed) {
    if (name == "others") continue;
    out[name] = driver_calls(name.c_str());
    named += out[name];
  }
  out["others"] = driver_calls() - named;
  return out;
}

std::string text(const Calls& calls) {
  std::string out;
  for (const auto& [name, count] : calls) out += name + " " + std::to_string(count) + "\n";
  return out;
}

struct Counted {
  HostCalls host;
  std::string driver;
};

// `homes` is 1 if gradients stay, and 2 if their address changes in every step.
Counted count_runs(Form form, int homes, const Calls& allowed) {
  Trainer t(Device::cuda(), form, kTiny);
  std::vector<std::vector<void*>> g;
  for (int home = 0; home < homes; ++home) g.push_back(t.gradients(0, home));
  Args args = t.args(0);
  auto home_of = [&](int i) -> auto& { return g[static_cast<size_t>(i % homes)]; };
  for (int i = 0; i < 4; ++i) t.step().run(home_of(i), args);
  reset_driver_calls();
#if STEPFUSE_COUNTS_HOST_CALLS
  start_counting(driver_depth());
  for (int i = 0; i < kSteps; ++i) t.step().run(home_of(i), args);
  HostCalls host = stop_counting();
#else
  for (int i = 0; i < kSteps; ++i) t.step().run(home_of(i), args);
  HostCalls host;
#endif
  Counted counted{host, text(calls_so_far(allowed))};
  t.step().stats();
  return counted;
}

// The changes of a learning rate schedule, an overflow and a checkpoint that is restored in
// mid-run.
class LongRun {
 public:
  static constexpr int kSave = 300, kOverflow = 500, kRestore = 700;
  LongRun(Trainer& t, std::string file) : t_(t), file_(std::move(file)) {
    t_.overflow_at = kOverflow;
  }
  // Called before each step i.
  void before(int i) {
    if (i == kSave) save_checkpoint(file_, t_.step());
    if (i == kRestore) load_checkpoint(file_, t_.step());
  }
  Args args(int i) const {
    Args a = t_.step().make_args();
    a.set("lr", 1e-3 * (1 + std::cos(3.14159265358979 * i / kSteps)));
    return a;
  }
  ~LongRun() { std::remove(file_.c_str()); }

 private:
  Trainer& t_;
  std::string file_;
};

std::string scratch_file(const char* name) {
  return (std::filesystem::temp_directory_path() /
          (std::string("stepfuse_") + name + std::to_string(::getpid()) + ".safetensors"))
      .string();
}

}  // namespace

TEST_CASE(
    "1,000 runs: one launch each, no allocation, lock or wait, on the host or in the driver") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  make_context_current();
  for (Form form : {Form::fused, Form::split, Form::unfused}) {
    CAPTURE(name(form));
    uint64_t launches = form == Form::fused ? 1 : form == Form::split ? 2 : 5;
    // One event orders runs, whatever their streams.
    Calls want = {{"cuCtxGetCurrent", kSteps},
                  {"cuStreamIsCapturing", kSteps},
                  {"cuStreamWaitEvent", kSteps},
                  {"cuEventRecord", kSteps},
                  {"cuLaunchKernelEx", kSteps * launches},
                  {"others", 0}};
    Counted still = count_runs(form, 1, want);
    CHECK(still.host == HostCalls{});
    CHECK(still.driver == text(want));
    // If gradients moved, the records are uploaded from a buffer that an event reports free.
    want["cuMemcpyHtoDAsync_v2"] = want["cuEventQuery"] = kSteps;
    want["cuEventRecord"] = 2 * kSteps;
    Counted moved = count_runs(form, 2, want);
    CHECK(moved.host == HostCalls{});
    CHECK(moved.driver == text(want));
  }
#if STEPFUSE_COUNTS_HOST_CALLS
  start_counting(driver_depth());
  delete new std::vector<int>(100);
  CHECK(stop_counting().allocations == 1);  // checks that the counters count
#endif
}

TEST_CASE("a graph replayed 1,000 times learns what an eager run learns") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  Trainer eager(Device::cuda(), Form::fused, kTiny);
  LongRun plan(eager, scratch_file("eager"));
  for (int i = 0; i < kSteps; ++i) {
    plan.before(i);
    eager.step().run(eager.gradients(i, 0), plan.args(i));
  }
  std::vector<float> want = eager.weights();

  Trainer t(Device::cuda(), Form::fused, kTiny);
  LongRun replayed(t, scratch_file("replayed"));
  TestStream stream;
  std::vector<void*> g = t.gradients(0, 0);
  t.step().run(g, replayed.args(0), stream.stream());
  t.step().set_args(replayed.args(1), stream.stream());
  stream.synchronize();
  TestGraph graph(stream, [&] { t.step().run_captured(g, stream.stream()); });
  reset_driver_calls();
  for (int i = 1; i < kSteps; ++i) {
    replayed.before(i);
    t.gradients(i, 0);
    t.step().set_args(replayed.args(i), stream.stream());
    graph.launch();
    stream.synchronize();  // the host writes the next gradients
  }
  CHECK(driver_calls("cuLaunchKernelEx") == 0);
  CHECK(t.weights() == want);
  CHECK(t.step().read_state("step")[0].i64() == eager.step().read_state("step")[0].i64());
  // Every replay reports and increases the number.
  auto newest = t.step().latest();
  REQUIRE(newest);
  CHECK(newest->index == kSteps - 1);
}
