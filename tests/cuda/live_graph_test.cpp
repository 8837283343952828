// A step whose launches are part of a captured graph: the calls that it refuses while the graph
// exists, and several graphs of several steps in flight at once.
#include <algorithm>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cuda/fake_device.hpp"
#include "tests/support/graph.hpp"
#include "tests/support/trainer.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

const Trainer::Sizes kSizes = {300, 1, 17};

// Makes the step ready for capture: gradients and arguments of step 0 are set.
std::vector<void*> warm_up(Trainer& t, const TestStream& stream) {
  std::vector<void*> g = t.gradients(0, 0);
  t.step().set_args(t.args(0), stream.stream());
  t.step().run_captured(g, stream.stream());
  stream.synchronize();
  return g;
}

}  // namespace

TEST_CASE("a step in a live graph refuses whatever the graph's replays would not survive") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  TestStream stream;
  Trainer t(Device::cuda(), Form::fused, kSizes);
  std::vector<void*> g = warm_up(t, stream);
  auto graph =
      std::make_unique<TestGraph>(stream, [&] { t.step().run_captured(g, stream.stream()); });

  std::vector<void*> weights = t.arrays(0), others = weights;
  std::swap(others[0], others[1]);
  std::vector<void*> moved = t.gradients(1, 1), absent = t.gradients(1, 0);
  absent[2] = nullptr;
  auto refused = [&](const char* why, auto&& what) {
    CHECK_THROWS_WITH_AS(what(), doctest::Contains(why), Error);
    CHECK_THROWS_WITH_AS(what(), doctest::Contains("destroy the graph"), Error);
  };
  refused("@weight is bound to other arrays", [&] { t.step().bind_raw("weight", others); });
  refused("gradients have moved", [&] { t.step().run(moved, t.args(1)); });
  refused("gradients have moved", [&] { t.step().run(absent, t.args(1)); });
  refused("gradients have moved", [&] { t.step().observe(Tensor{0}, moved, t.args(1)); });
  refused("append()", [&] { t.step().append({.elements = 4}); });
  refused("prepare()", [&] { t.step().prepare(); });

  // Calls that move nothing are allowed between replays, also after refused calls.
  Trainer eager(Device::interpreter(), Form::fused, kSizes);
  for (int i = 0; i < 4; ++i) eager.run(i, 0);
  eager.step().init_state();
  eager.run(4, 0);
  t.step().bind_raw("weight", weights);
  t.gradients(1, 0);
  t.step().run(g, t.args(1), stream.stream());
  for (int i = 2; i < 4; ++i) {
    t.gradients(i, 0);
    t.step().set_args(t.args(i), stream.stream());
    graph->launch();
    stream.synchronize();
  }
  t.step().init_state();
  t.gradients(4, 0);
  t.step().set_args(t.args(4), stream.stream());
  graph->launch();
  stream.synchronize();
  CHECK(t.weights() == eager.weights());

  // The executable alone keeps a graph alive. Without either the step is free again.
  graph->drop_graph();
  CHECK_THROWS_AS(t.step().run(moved, t.args(1)), Error);
  graph.reset();
  t.step().run(moved, t.args(5));
  t.step().prepare();
  t.step().append({.elements = 4});
}

TEST_CASE("a capture that came to nothing leaves the step free") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  TestStream stream;
  Trainer t(Device::cuda(), Form::fused, kSizes);
  std::vector<void*> g = warm_up(t, stream);
  stream.begin_capture();
  t.step().run_captured(g, stream.stream());
  CHECK_THROWS_WITH_AS(t.step().set_args(t.args(1), stream.stream()),
                       doctest::Contains("before the capture"), Error);
  CHECK_THROWS_WITH_AS(t.step().run(g, t.args(1), stream.stream()), doctest::Contains("frozen"),
                       Error);
  CHECK(stream.drop_capture() == 0);
  t.step().run(t.gradients(1, 1), t.args(1));
}

TEST_CASE("arrays that are bound again are those of the next run") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  // The gradients' second location serves as new weights.
  auto learn = [](const Device& device) {
    Trainer t(device, Form::fused, kSizes);
    std::vector<void*> g = t.gradients(0, 0);
    t.step().run(g, t.args(0));
    t.step().stats();
    std::vector<void*> others = t.gradients(3, 1);
    t.step().bind_raw("weight", others);
    t.step().run(g, t.args(1));
    t.step().stats();
    auto* first = static_cast<float*>(others[0]);
    std::vector<float> out = t.weights();
    out.insert(out.end(), first, first + kSizes[0]);
    return out;
  };
  CHECK(learn(Device::cuda()) == learn(Device::interpreter()));
}

TEST_CASE("two graphs on two streams at once, of two steps on two devices or on one") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  constexpr int kReplays = 20;
  auto learn = [&](int first, int second) {
    Trainer a(Device::cuda(first), Form::fused, kSizes),
        b(Device::cuda(second), Form::split, {700});
    TestStream one(first);
    std::vector<void*> of_a = warm_up(a, one);
    TestGraph graph_a(one, [&] { a.step().run_captured(of_a, one.stream()); });
    TestStream two(second);
    std::vector<void*> of_b = warm_up(b, two);
    TestGraph graph_b(two, [&] { b.step().run_captured(of_b, two.stream()); });
    // The host runs ahead of both streams, whose work is then done in any order.
    make_driver_lazy(true);
    for (int i = 1; i < kReplays; ++i) {
      a.step().set_args(a.args(i), one.stream());
      graph_a.launch();
      b.step().set_args(b.args(2 * i), two.stream());
      graph_b.launch();
    }
    make_driver_lazy(false);
    std::vector<float> out = a.weights(), more = b.weights();
    out.insert(out.end(), more.begin(), more.end());
    return out;
  };
  Trainer a(Device::interpreter(), Form::fused, kSizes),
      b(Device::interpreter(), Form::fused, {700});
  std::vector<void*> of_a = a.gradients(0, 0), of_b = b.gradients(0, 0);
  for (int i = 0; i < kReplays; ++i) {
    a.step().run(of_a, a.args(i));
    b.step().run(of_b, b.args(2 * i));
  }
  std::vector<float> want = a.weights(), more = b.weights();
  want.insert(want.end(), more.begin(), more.end());
  CHECK(learn(0, 0) == want);
  CHECK(learn(0, 1) == want);
}
