// Lifetimes: the caller's memory is freed only after the device has finished with it, contexts are
// restored, and kernels belong to one context.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/cuda/host_access.hpp"
#include "tests/cuda/fake_device.hpp"
#include "tests/support/graph.hpp"
#include "tests/support/grouped_step.hpp"
#include "tests/support/trainer.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

const Trainer::Sizes kSizes = {300, 1, 17};

// One AdamW step over one tensor. Its memory comes from an allocator that reads the weight whenever
// memory is freed.
class Owner {
 public:
  explicit Owner(Program program = make_recipe("adamw")) {
    make_context_current();
    memory_[0] = 1;
    memory_[4] = 2;
    Layout layout;
    layout.add({.elements = 4});
    StepOptions options;
    options.allocator.allocate = [this](size_t bytes, Stream) {
      uint64_t p = 0;
      REQUIRE(call_driver("cuMemAlloc_v2", &p, bytes) == 0);
      ++allocated;
      return reinterpret_cast<void*>(p);
    };
    options.allocator.release = [this](void*, size_t, Stream) {
      ++released;
      weight_at_release = memory_[0];
    };
    step = std::make_unique<Step>(std::move(program), layout, Device::cuda(), options);
    step->prepare();
    const char* names[] = {"weight", "grad", "exp_avg", "exp_avg_sq"};
    for (size_t b : {0U, 2U, 3U}) step->bind_raw(names[b], std::vector<void*>{memory_ + 4 * b});
  }
  void run(Stream stream = {}) {
    Args args = step->make_args();
    args.set("lr", 0.1);
    step->run(std::vector<void*>{memory_ + 4}, args, stream);
  }

  std::unique_ptr<Step> step;
  int allocated = 0, released = 0;
  float weight_at_release = 0;

 private:
  alignas(4096) float memory_[1024] = {};
  cuda::HostAccess access_{0, {reinterpret_cast<char*>(memory_), sizeof memory_}};
};

}  // namespace

TEST_CASE("the caller's allocator gets nothing back that the device still uses") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  TestStream side;
  auto owner = std::make_unique<Owner>();
  owner->step->init_state();
  make_driver_lazy(true);
  owner->run(side.stream());
  reset_driver_calls();
  SUBCASE("when the step ends") {
    owner->step.reset();
    // Each event was waited for before its destruction. That drivers wait by themselves when pinned
    // memory is freed is not guaranteed.
    CHECK(driver_calls("cuEventDestroy_v2") > 1);
    CHECK(driver_calls("cuEventSynchronize") == driver_calls("cuEventDestroy_v2"));
  }
  SUBCASE("when append() makes another block") {
    owner->step->append({.elements = 4});
    owner->step->prepare();
  }
  make_driver_lazy(false);
  CHECK(owner->weight_at_release < 1);
}

TEST_CASE("the step of init_state() takes its memory from the caller's allocator, too") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  TestStream side;
  auto owner = std::make_unique<Owner>();
  CHECK(owner->allocated == 1);
  reset_driver_calls();
  make_driver_lazy(true);
  owner->step->init_state(side.stream());
  make_driver_lazy(false);
  CHECK(owner->allocated == 2);
  CHECK(owner->released == 1);
  CHECK(driver_calls("cuMemAlloc_v2") == 1);
  owner->step.reset();
  CHECK(owner->released == 2);
}

TEST_CASE("a context that is destroyed and made again is another one") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  auto learn = [](const Device& device) {
    Trainer t(device, Form::fused, kSizes);
    for (int i = 0; i < 3; ++i) t.run(i, 0);
    return t.weights();
  };
  make_context_current(0);
  std::vector<float> want = learn(Device::interpreter());
  CHECK(learn(Device::cuda(1)) == want);
  void *before = nullptr, *after = nullptr;
  REQUIRE(call_driver("cuDevicePrimaryCtxRetain", &before, 1) == 0);
  REQUIRE(call_driver("cuDevicePrimaryCtxReset_v2", 1) == 0);
  REQUIRE(call_driver("cuDevicePrimaryCtxRetain", &after, 1) == 0);
  REQUIRE(before == after);  // the address is not compared
  CHECK(learn(Device::cuda(1)) == want);
}

TEST_CASE("a kernel is shared where options and context are the same, and only there") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  Layout layout;
  layout.add({.elements = 4});
  Program program = make_recipe("adamw");
  program.name = "shared_where";
  auto prepare = [&](const Device& device) {
    Step step(program, layout, device);
    step.prepare();
    return step.compile_report();
  };
  CompileReport first = prepare(Device::cuda(0));
  CHECK_FALSE(first.from_memory_cache);
  CHECK(prepare(Device::cuda(0)).from_memory_cache);
  CHECK_FALSE(prepare(Device::cuda(1)).from_memory_cache);
  CHECK(prepare(Device::cuda(1)).from_memory_cache);
  CompileReport unrolled = prepare(Device::cuda(0, "unroll=2"));
  CHECK_FALSE(unrolled.from_memory_cache);
  CHECK(unrolled.key != first.key);
  CHECK(prepare(Device::cuda(0, "unroll=2")).from_memory_cache);
  CHECK_FALSE(prepare(Device::cuda(0, "cache=streaming")).from_memory_cache);
}

TEST_CASE("the caller's context is current again after every call") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  auto own = std::make_unique<Owner>();  // on device 0
  make_context_current(1);
  void* mine = nullptr;
  REQUIRE(call_driver("cuCtxGetCurrent", &mine) == 0);
  auto unchanged = [&] {
    void* now = nullptr;
    REQUIRE(call_driver("cuCtxGetCurrent", &now) == 0);
    return now == mine;
  };
  Layout layout;
  layout.add({.elements = 4});
  Step other(make_recipe("adamw"), layout, Device::cuda(0));
  CHECK(unchanged());
  other.prepare();
  CHECK(unchanged());
  own->step->prepare();
  CHECK(unchanged());
  own->step->init_state();
  CHECK(unchanged());
  own->run();
  CHECK(unchanged());
  own->step->set_args(own->step->make_args());
  CHECK(unchanged());
  own->step->stats();
  CHECK(unchanged());
  own->step->read_state("step");
  CHECK(unchanged());
  own->step.reset();
  CHECK(unchanged());
}

TEST_CASE("a capture with other gradients than the last run's is refused, and the run then works") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  TestStream stream;
  Trainer want(Device::interpreter(), Form::fused, kSizes);
  Trainer t(Device::cuda(), Form::fused, kSizes);
  want.run(0, 0);
  t.run(0, 0);
  want.run(1, 1);
  std::vector<void*> moved = t.gradients(1, 1);
  t.step().set_args(t.args(1), stream.stream());
  stream.synchronize();
  stream.begin_capture();
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS(t.step().run_captured(moved, stream.stream()),
                         doctest::Contains("run once with these addresses"), Error);
  }
  CHECK(stream.drop_capture() == 0);
  t.step().run_captured(moved, stream.stream());
  CHECK(t.weights() == want.weights());
}

TEST_CASE("what a capture will launch is loaded beforehand") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  // A new context, in which no other test has launched anything.
  REQUIRE(call_driver("cuDevicePrimaryCtxReset_v2", 1) == 0);
  TestStream stream(1);
  Trainer t(Device::cuda(1), Form::fused, kSizes);
  std::vector<void*> g = t.gradients(0, 0);
  t.step().set_args(t.args(0), stream.stream());
  t.step().run_captured(g, stream.stream());
  stream.synchronize();
  // The kernels of reduce() have never been launched.
  stream.begin_capture();
  t.step().reduce_captured(g, stream.stream());
  t.step().run_captured(g, stream.stream());
  CHECK(stream.drop_capture() == 0);
}

TEST_CASE("a driver that fails to watch a graph costs the protection, not the step") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  for (const char* call : {"cuUserObjectCreate", "cuGraphRetainUserObject"}) {
    CAPTURE(call);
    TestStream stream;
    Trainer t(Device::cuda(), Form::fused, kSizes);
    std::vector<void*> g = t.gradients(0, 0);
    t.step().set_args(t.args(0), stream.stream());
    t.step().run_captured(g, stream.stream());
    stream.synchronize();
    fail_driver(call, 1, 801);
    {
      TestGraph graph(stream, [&] { t.step().run_captured(g, stream.stream()); });
      t.step().prepare();
    }
    t.step().prepare();
    t.step().append({.elements = 4});
  }
}

TEST_CASE("reports are asked for by several threads, and each arrives once and in order") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  constexpr uint64_t kRuns = 60;
  Owner owner(make_recipe("adamw", {.clip = Clip::l2}));
  owner.step->init_state();
  for (uint64_t i = 0; i < kRuns; ++i) owner.run();
  std::atomic<int> waiting = 4;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      --waiting;
      while (waiting != 0) {
      }
      owner.step->latest();
    });
  }
  for (std::thread& t : threads) t.join();
  std::vector<StepStats> history = owner.step->history();
  REQUIRE(history.size() == kRuns);
  for (uint64_t i = 0; i < kRuns; ++i) CHECK(history[i].index == i);
}

TEST_CASE("what moved before a run that failed has moved for the next") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  Trainer want(Device::interpreter(), Form::fused, kSizes);
  Trainer t(Device::cuda(), Form::fused, kSizes);
  want.run(0, 0);
  t.run(0, 0);
  want.run(1, 1);
  fail_driver("cuStreamIsCapturing", 1, 400);
  CHECK_THROWS_AS(t.run(1, 1), Error);
  t.run(1, 1);
  CHECK(t.weights() == want.weights());
}

TEST_CASE("an append() that the device fails in leaves the step as it was") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  Trainer want(Device::interpreter(), Form::fused, kSizes);
  for (int i = 0; i < 4; ++i) want.run(i, 0);
  Trainer t(Device::cuda(), Form::fused, kSizes);
  int refused = 0;
  for (int i = 0; i < 4; ++i) {
    Args args = t.args(i);
    // The copies into the new block: a state's initial value, and its old value.
    fail_driver("cuMemcpyHtoDAsync_v2", static_cast<uint64_t>(i + 1), 700);
    t.step().append({.name = "more", .elements = 3});
    CHECK_THROWS_AS(t.step().prepare(), Error);
    ++refused;
    CHECK(t.step().layout().size() == kSizes.size());
    t.step().run(t.gradients(i, 0), args);
  }
  CHECK(refused == 4);
  CHECK(t.weights() == want.weights());
  CHECK(t.step().stats()->index == 3);
}

TEST_CASE("a set_group() that the device fails in leaves a step that asks for prepare()") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  GroupedStep want(Device::interpreter(), {0, 0, 1}), t(Device::cuda(), {0, 0, 1});
  want.run(0);
  t.run(0);
  want.step().set_group(Tensor{1}, Group{1});
  fail_driver("cuMemcpyHtoDAsync_v2", 1, 700);
  CHECK_THROWS_AS(t.step().set_group(Tensor{1}, Group{1}), Error);
  CHECK_THROWS_WITH_AS(t.run(1), doctest::Contains("call prepare()"), Error);
  t.step().prepare();
  want.run(1);
  t.run(1);
  CHECK(t.weights() == want.weights());
}

TEST_CASE("a second prepare() loses no reports, and one that fails leaves a step that says so") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  Owner owner(make_recipe("adamw", {.clip = Clip::l2}));
  owner.step->init_state();
  owner.run();
  owner.run();
  owner.step->prepare();
  CHECK(owner.step->history().size() == 2);
  ::setenv("STEPFUSE_CUDA_CODE", "nonsense", 1);
  CHECK_THROWS_AS(owner.step->prepare(), Error);
  ::setenv("STEPFUSE_CUDA_CODE", "ptx", 1);
  CHECK_THROWS_WITH_AS(owner.run(), doctest::Contains("call prepare()"), Error);
  owner.step->prepare();
  owner.run();
  CHECK(owner.step->stats()->index == 2);
}
