// Unordered streams, such as PyTorch's side streams: a step's work is still one sequence, and a
// read of a state, a scale or an array gives its result.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/checkpoint.hpp>

#include "tests/cuda/fake_device.hpp"
#include "tests/support/graph.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/trainer.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

const Trainer::Sizes kSizes = {300, 1, 17};

// A device whose streams do nothing until a call waits for them.
class Lazy {
 public:
  Lazy() { make_driver_lazy(true); }
  ~Lazy() { make_driver_lazy(false); }
  Lazy(const Lazy&) = delete;
  Lazy& operator=(const Lazy&) = delete;
};

std::vector<float> reference(int steps) {
  Trainer t(Device::interpreter(), Form::fused, kSizes);
  for (int i = 0; i < steps; ++i) t.run(i, i % 2);
  return t.weights();
}

}  // namespace

TEST_CASE("runs of one step in streams that nothing orders come one after another") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  for (Form form : {Form::fused, Form::split}) {
    TestStream one, two;
    Trainer t(Device::cuda(), form, kSizes);
    {
      Lazy lazy;
      t.run(0, 0, one.stream());
      t.run(1, 1, two.stream());
      t.run(2, 2, one.stream());
      one.synchronize();
    }
    CHECK(t.weights() == reference(3));
  }
}

TEST_CASE("observe, reduce and run may each have a stream of their own") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  TestStream one, two, three;
  Trainer t(Device::cuda(), Form::fused, kSizes);
  {
    Lazy lazy;
    for (int i = 0; i < 2; ++i) {
      std::vector<void*> g = t.gradients(i, i);
      std::span<void* const> all = g;
      t.step().observe(Tensor{0}, all.subspan(0, 2), t.args(i), one.stream());
      t.step().reduce(all, t.args(i), two.stream());
      t.step().run(all, t.args(i), three.stream());
    }
    three.synchronize();
  }
  CHECK(t.weights() == reference(2));
}

TEST_CASE("set_args in one stream is what a run in another uses") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  TestStream one, two;
  Trainer t(Device::cuda(), Form::fused, kSizes);
  {
    Lazy lazy;
    for (int i = 0; i < 3; ++i) {
      t.step().set_args(t.args(i), one.stream());
      t.step().run_captured(t.gradients(i, i % 2 == 0 ? 0 : 1), two.stream());
      two.synchronize();
    }
  }
  CHECK(t.weights() == reference(3));
}

TEST_CASE("whoever reads waits for the step, whatever its stream") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  Trainer want(Device::interpreter(), Form::fused, kSizes);
  want.overflow_at = 0;
  want.run(0, 0);
  double scale = want.scaler().read();
  REQUIRE(scale == 32768);
  auto after_a_run = [&](auto&& check) {
    TestStream side, other;
    Trainer t(Device::cuda(), Form::fused, kSizes);
    t.overflow_at = 0;
    Lazy lazy;
    t.run(0, 0, side.stream());
    check(t, other.stream());
  };
  auto bits_of = [](Trainer& t, const char* state, Stream stream) {
    return t.step().read_state(state, stream)[0].raw;
  };
  after_a_run(
      [&](Trainer& t, Stream) { CHECK(bits_of(t, "scale", {}) == bits_of(want, "scale", {})); });
  after_a_run([&](Trainer& t, Stream other) {
    CHECK(bits_of(t, "scale", other) == bits_of(want, "scale", {}));
  });
  after_a_run([&](Trainer& t, Stream) { CHECK(t.scaler().read() == scale); });
  after_a_run([&](Trainer& t, Stream) {
    auto stats = t.step().stats();
    REQUIRE(stats.has_value());
    CHECK(stats->at("found_inf") == 1);
  });
  after_a_run([&](Trainer& t, Stream other) { CHECK(t.step().stats(other).has_value()); });
  // A write comes after the run as well.
  after_a_run([&](Trainer& t, Stream) {
    t.scaler().write("scale", 7);
    CHECK(t.scaler().read() == 7);
  });
  after_a_run([&](Trainer& t, Stream other) {
    t.step().write_state("scale", std::vector<Bits>{Bits::of(7.0F)}, other);
    t.step().stats();
    CHECK(t.scaler().read() == 7);
  });
  after_a_run([&](Trainer& t, Stream other) {
    t.step().init_state(other);
    Trainer fresh(Device::interpreter(), Form::fused, kSizes);
    t.scaler().write("scale", 65536);
    CHECK(t.weights() == fresh.weights());
  });
  TestStream side, other;
  Trainer t(Device::cuda(), Form::fused, kSizes);
  t.overflow_at = -1;
  Lazy lazy;
  t.run(0, 0, side.stream());  // this one counts
  t.step().init_state(other.stream());
  for (Bits count : t.step().read_state("step")) CHECK(count.i64() == 0);
}

TEST_CASE("a scaler's value is that of the last of all its steps") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  TestStream side;
  Layout layout;
  layout.add({.elements = 4});
  Program program = make_recipe("sgd", {.loss_scale = LossScale::dynamic});
  LossScaler scaler;
  std::vector<std::unique_ptr<Step>> steps;
  alignas(4096) static float memory[1024];
  memory[0] = std::numeric_limits<float>::infinity();
  cuda::HostAccess access(0, {reinterpret_cast<char*>(memory), sizeof memory});
  std::vector<void*> grad = {memory};
  for (int i = 0; i < 2; ++i) {
    steps.push_back(
        std::make_unique<Step>(program, layout, Device::cuda(), StepOptions{.scaler = &scaler}));
    std::vector<void*> weight = {memory + 4 * (i + 1)};
    steps[i]->prepare();
    steps[i]->bind_raw("weight", weight);
    steps[i]->init_state();
  }
  Lazy lazy;
  Args args = steps[1]->make_args();
  args.set("lr", 0.1);
  steps[1]->run(grad, args, side.stream());
  CHECK(scaler.read() == 32768);
  steps[1]->run(grad, args, side.stream());
  CHECK(steps[0]->read_state("scale")[0] == Bits::of(16384.0F));
  steps[1]->run(grad, args, side.stream());
  steps.pop_back();  // its run has finished by now
  CHECK(scaler.read() == 8192);
}

TEST_CASE("a checkpoint holds the step that a side stream was given") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  TestStream side;
  ScratchFolder folder;
  std::string path = folder.path() / "c.safetensors";
  Trainer t(Device::cuda(), Form::fused, kSizes);
  t.run(0, 0, side.stream());
  {
    Lazy lazy;
    t.run(1, 1, side.stream());
    save_checkpoint(path, t.step());
  }
  Trainer loaded(Device::cuda(), Form::fused, kSizes);
  {
    // The stream that loads it may be busy.
    Lazy lazy;
    loaded.run(7, 0, side.stream());
    load_checkpoint(path, loaded.step());
  }
  CHECK(loaded.weights().back() == t.weights().back());
  t.run(2, 0);
  loaded.run(2, 0);
  std::vector<float> a = t.weights(), b = loaded.weights();
  // Parameters are the trainer's and not in the checkpoint; the moments are.
  size_t n = (a.size() - 1) / 3;
  CHECK(std::equal(a.begin() + static_cast<std::ptrdiff_t>(n), a.end(),
                   b.begin() + static_cast<std::ptrdiff_t>(n)));
}

TEST_CASE("replays of a live graph are waited for, and a capture waits for nothing") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  for (bool tracked : {true, false}) {
    TestStream stream, elsewhere;
    Trainer t(Device::cuda(), Form::fused, kSizes);
    t.overflow_at = 1;
    std::vector<void*> g = t.gradients(0, 0);
    t.step().set_args(t.args(0), stream.stream());
    t.step().run_captured(g, stream.stream());
    stream.synchronize();
    // A driver that cannot track graphs, in this capture.
    if (!tracked) fail_driver("cuUserObjectCreate", 1, 801);
    TestGraph graph(stream, [&] { t.step().run_captured(g, stream.stream()); });
    t.gradients(1, 0);
    t.step().set_args(t.args(1), stream.stream());
    stream.synchronize();
    Lazy lazy;
    graph.launch();
    CHECK(t.scaler().read() == 32768);
  }
}

TEST_CASE("a run orders by events alone: it waits for nothing, and makes nothing") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  TestStream one, two;
  Trainer t(Device::cuda(), Form::fused, kSizes);
  std::vector<void*> g = t.gradients(0, 0);
  t.step().run(g, t.args(0), one.stream());
  reset_driver_calls();
  t.step().run(g, t.args(1), two.stream());
  t.step().run(g, t.args(2), one.stream());
  CHECK(driver_calls("cuStreamWaitEvent") == 2);
  CHECK(driver_calls("cuEventRecord") == 2);
  for (const char* name : {"cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize",
                           "cuEventCreate", "cuMemAlloc_v2", "cuMemHostAlloc"}) {
    CHECK(driver_calls(name) == 0);
  }
  // In a capture these calls would become part of the graph, or end it.
  t.step().set_args(t.args(3), one.stream());
  one.synchronize();
  reset_driver_calls();
  one.begin_capture();
  t.step().run_captured(g, one.stream());
  CHECK(driver_calls("cuStreamWaitEvent") == 0);
  CHECK(driver_calls("cuEventRecord") == 0);
  CHECK(one.drop_capture() == 0);
}

TEST_CASE("an order that could not be kept is an error of the next call") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  Trainer t(Device::cuda(), Form::fused, kSizes);
  std::vector<void*> g = t.gradients(0, 0);
  fail_driver("cuEventRecord", 2, 400);  // the first is the upload's
  t.step().run(g, t.args(0));
  CHECK_THROWS_WITH_AS(t.step().run(g, t.args(0)), doctest::Contains("cuEventRecord"), Error);
  t.step().stats();
  t.step().run(g, t.args(0));
}
