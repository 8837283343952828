// Guarantees for trainers besides the bits: runs that only launch, gradients that move, graphs, the
// split phase, fewer blocks than requested.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>

#include "tests/cuda/fake_device.hpp"
#include "tests/support/graph.hpp"
#include "tests/support/trainer.hpp"
#include "tools/workload/runner.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

std::vector<float> reference(int steps) {
  Trainer t(Device::interpreter());
  for (int i = 0; i < steps; ++i) t.run(i, 0);
  return t.weights();
}

// Calls that would make the host wait for the device, or allocate.
uint64_t forbidden_calls() {
  uint64_t n = 0;
  for (const char* name : {"cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize",
                           "cuMemAlloc_v2", "cuMemAllocAsync", "cuMemFree_v2", "cuMemHostAlloc",
                           "cuModuleLoadDataEx", "cuEventCreate"}) {
    n += driver_calls(name);
  }
  return n;
}

}  // namespace

TEST_CASE("a run is one launch, and one upload where gradients moved") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  Trainer t(Device::cuda());
  t.run(0, 0);
  t.run(1, 1);
  reset_driver_calls();
  for (int i = 2; i < 6; ++i) t.run(i, 1);
  CHECK(driver_calls("cuLaunchKernelEx") == 4);
  CHECK(driver_calls("cuMemcpyHtoDAsync_v2") == 0);
  CHECK(forbidden_calls() == 0);
  reset_driver_calls();
  for (int i = 6; i < 12; ++i) t.run(i, i % 2);
  CHECK(driver_calls("cuLaunchKernelEx") == 6);
  CHECK(driver_calls("cuMemcpyHtoDAsync_v2") == 6);
  CHECK(forbidden_calls() == 0);
  CHECK(t.weights() == reference(12));
}

TEST_CASE("statistics of finished steps arrive in order, each once") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  Trainer want(Device::interpreter());
  Trainer got(Device::cuda());
  for (int i = 0; i < 8; ++i) {
    want.run(i, 0);
    got.run(i, 0);
  }
  got.step().stats();
  auto a = want.step().history();
  auto b = got.step().history();
  REQUIRE(a.size() == 8);
  REQUIRE(b.size() == 8);
  for (size_t i = 0; i < 8; ++i) {
    CHECK(b[i].index == i);
    CHECK(b[i].values == a[i].values);
  }
  CHECK(b[5].at("found_inf") == 1);
}

TEST_CASE("late devices read what their step was given, not what came after") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  std::vector<float> want = reference(3);
  Trainer t(Device::cuda());
  make_driver_lazy(true);
  // Each step has gradients at its own address, since the device may read them all at the end.
  for (int i = 0; i < 3; ++i) t.run(i, i);
  make_driver_lazy(false);
  CHECK(t.weights() == want);
}

TEST_CASE("every form runs on a device that has room for fewer blocks") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  std::vector<float> want = reference(2);
  Trainer fewer(Device::cuda());
  fail_driver("cuLaunchKernelEx", 1, 720);
  fewer.run(0, 0);
  fewer.run(1, 0);
  CHECK(fewer.weights() == want);
  // No cooperative grid fits at all, so the form is split.
  Trainer split(Device::cuda());
  for (uint64_t n = 1; n <= 2; ++n) fail_driver("cuLaunchKernelEx", n, 720);
  reset_driver_calls();
  split.run(0, 0);
  split.run(1, 0);
  CHECK(split.weights() == want);
}

TEST_CASE("observed gradients give the same bits") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  std::vector<float> want = reference(4);
  for (Form form : {Form::fused, Form::split}) {
    Trainer t(Device::cuda(), form);
    for (int i = 0; i < 4; ++i) {
      std::vector<void*> g = t.gradients(i, i % 2);
      std::span<void* const> all = g;
      t.step().observe(Tensor{2}, all.subspan(2), t.args(i));
      t.step().observe(Tensor{0}, all.subspan(0, 1), t.args(i));
      t.step().observe(Tensor{2}, all.subspan(2, 1), t.args(i));  // a second time
      t.step().run(all, t.args(i));
    }
    CHECK(t.weights() == want);
  }
}

TEST_CASE("a captured step replays with new arguments and new gradients") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  constexpr int kSteps = 12;
  std::vector<float> want = reference(kSteps);
  Trainer t(Device::cuda());
  make_context_current();
  void* stream = nullptr;
  REQUIRE(call_driver("cuStreamCreate", &stream, 1U) == 0);
  std::vector<void*> g = t.gradients(0, 0);
  t.step().run(g, t.args(0), {stream});
  REQUIRE(call_driver("cuStreamSynchronize", stream) == 0);

  REQUIRE(call_driver("cuStreamBeginCapture_v2", stream, 2) == 0);
  CHECK_THROWS_WITH_AS(t.step().run(g, t.args(1), {stream}), doctest::Contains("set_args"), Error);
  void* graph = nullptr;
  REQUIRE(call_driver("cuStreamEndCapture", stream, &graph) == 0);
  call_driver("cuGraphDestroy", graph);

  t.step().set_args(t.args(1), {stream});
  REQUIRE(call_driver("cuStreamSynchronize", stream) == 0);
  REQUIRE(call_driver("cuStreamBeginCapture_v2", stream, 2) == 0);
  t.step().run_captured(g, {stream});
  REQUIRE(call_driver("cuStreamEndCapture", stream, &graph) == 0);
  void* executable = nullptr;
  REQUIRE(call_driver("cuGraphInstantiateWithFlags", &executable, graph, 0ULL) == 0);
  for (int i = 1; i < kSteps; ++i) {
    t.gradients(i, 0);
    t.step().set_args(t.args(i), {stream});
    REQUIRE(call_driver("cuGraphLaunch", executable, stream) == 0);
    REQUIRE(call_driver("cuStreamSynchronize", stream) == 0);
  }
  CHECK(t.weights() == want);
  REQUIRE(call_driver("cuStreamBeginCapture_v2", stream, 2) == 0);
  CHECK_THROWS_WITH_AS(t.step().run_captured(t.gradients(1, 1), {stream}),
                       doctest::Contains("moved"), Error);
  REQUIRE(call_driver("cuStreamEndCapture", stream, &graph) == 0);
  call_driver("cuGraphExecDestroy", executable);
  call_driver("cuGraphDestroy", graph);
}

TEST_CASE("a step's memory is known beforehand and comes from the caller's allocator") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  Layout layout;
  for (uint64_t n : {5000, 1, 0, 40000}) layout.add({.elements = n});
  Program program = make_recipe("adamw", {.clip = Clip::l2});
  make_context_current();
  size_t asked = 0;
  StepOptions options;
  options.allocator.allocate = [&](size_t bytes, Stream) -> void* {
    asked += bytes;
    uint64_t p = 0;
    return call_driver("cuMemAlloc_v2", &p, bytes) == 0 ? reinterpret_cast<void*>(p) : nullptr;
  };
  options.allocator.release = [](void* p, size_t, Stream) {
    call_driver("cuMemFree_v2", reinterpret_cast<uint64_t>(p));
  };
  size_t known = Step::workspace_bytes(program, layout, options, Device::Kind::cuda);
  Step step(program, layout, Device::cuda(), options);
  CHECK(asked == known);
  CHECK(step.workspace_bytes() == known);
}

TEST_CASE("more pieces than one fold takes, nearly all of them tiny") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  std::string text = R"({"name": "tiny", "tensors": [)";
  for (int i = 0; i < 16500; ++i)
    text += R"({"name": "t", "shape": [)" + std::to_string(1 + i % 2) + "]},";
  text += R"({"name": "last", "shape": [20000]}]})";
  LayoutFile layout = parse_layout(text);
  Program program = make_recipe("adamw", {.clip = Clip::l2});
  RunPlan plan;
  plan.steps = 1;
  plan.device = Device::interpreter();
  std::string want = run_workload(program, layout, {}, plan).digest;
  plan.device = Device::cuda();
  CHECK(run_workload(program, layout, {}, plan).digest == want);
}

TEST_CASE("a device that is not there is named") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  Layout layout;
  layout.add({.elements = 4});
  CHECK_THROWS_WITH_AS(Step(make_recipe("adamw"), layout, Device::cuda(7)),
                       doctest::Contains("no CUDA device 7: the driver has 2"), Error);
}

TEST_CASE("a cubin that the driver refuses is named with both versions") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  Layout layout;
  layout.add({.elements = 4});
  setenv("STEPFUSE_CUDA_CODE", "cubin", 1);
  Step step(make_recipe("adamw", {.check = true}), layout, Device::cuda());
  CHECK_THROWS_WITH_AS(step.prepare(), doctest::Contains("a cubin for sm_90, made by NVRTC"),
                       Error);
  setenv("STEPFUSE_CUDA_CODE", "neither", 1);
  CHECK_THROWS_WITH_AS(step.prepare(), doctest::Contains("neither ptx nor cubin"), Error);
  setenv("STEPFUSE_CUDA_CODE", "ptx", 1);
  step.prepare();
}

TEST_CASE("a parameter appended later starts fresh, the others keep their state") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  auto run = [](const Device& device) {
    auto* pages = static_cast<char*>(std::aligned_alloc(4096, 4096 * 4));
    std::fill(pages, pages + 4096 * 4, '\x3c');
    std::vector<float> out;
    {
      std::vector<cuda::HostAccess> access;
      if (device.kind() == Device::Kind::cuda) {
        access.emplace_back(0, std::span(pages, size_t{4096} * 4));
      }
      auto at = [&](int buffer, int tensor) -> void* {
        return pages + 4096 * buffer + 512 * tensor;
      };
      Layout layout;
      layout.add({.elements = 100});
      Step step(make_recipe("adamw", {.clip = Clip::l2}), layout, device);
      auto bind = [&](int tensors) {
        const char* names[] = {"weight", "exp_avg", "exp_avg_sq"};
        for (int b = 0; b < 3; ++b) {
          std::vector<void*> pointers;
          for (int t = 0; t < tensors; ++t) pointers.push_back(at(b, t));
          step.bind_raw(names[b], pointers);
        }
      };
      step.prepare();
      bind(1);
      step.init_state();
      std::vector<void*> grads = {at(3, 0)};
      for (int i = 0; i < 3; ++i) step.run(grads, step.make_args());
      step.append({.elements = 120});
      step.prepare();
      bind(2);
      step.adopt_state();
      grads.push_back(at(3, 1));
      for (int i = 0; i < 2; ++i) step.run(grads, step.make_args());
      step.stats();
      auto counts = step.read_state("step");
      CHECK(counts[0].i64() == 5);
      CHECK(counts[1].i64() == 2);
      std::vector<StepStats> history = step.history();
      REQUIRE(history.size() == 5);
      for (size_t i = 0; i < 5; ++i) CHECK(history[i].index == i);
      for (int t = 0; t < 2; ++t) {
        auto* w = static_cast<float*>(at(0, t));
        out.insert(out.end(), w, w + 100);
      }
    }
    std::free(pages);
    return out;
  };
  CHECK(run(Device::cuda()) == run(Device::interpreter()));
}
