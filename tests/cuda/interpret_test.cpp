// STEPFUSE_FORM=interpret on a CUDA device: arrays stay where they are, the host interprets.
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cuda/fake_device.hpp"
#include "tests/support/graph.hpp"
#include "tests/support/trainer.hpp"
#include "tools/workload/runner.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

class ForcedForm {
 public:
  explicit ForcedForm(const char* form) { setenv("STEPFUSE_FORM", form, 1); }
  ~ForcedForm() { unsetenv("STEPFUSE_FORM"); }
  ForcedForm(const ForcedForm&) = delete;
  ForcedForm& operator=(const ForcedForm&) = delete;
};

}  // namespace

TEST_CASE("STEPFUSE_FORM=interpret on a CUDA device: the same bits without a launch") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  LayoutFile layout = parse_layout(R"({"name": "odd", "tensors": [
    {"name": "a", "shape": [3001], "misalign": 1},
    {"name": "b", "shape": [0]},
    {"name": "c", "shape": [40], "group": 1}]})");
  Program program = make_recipe("adamw", {.grad = DType::f16,
                                          .master = true,
                                          .loss_scale = LossScale::dynamic,
                                          .clip = Clip::l2,
                                          .zero_grad = true});
  for (bool observe : {false, true}) {
    RunPlan plan;
    plan.steps = 4;
    plan.observe = observe;
    plan.vary_args = true;
    plan.inputs = {.inputs = Inputs::special, .absent = 0.2, .moving = true};
    plan.device = Device::cuda();
    RunReport want = run_workload(program, layout, {}, plan);
    ForcedForm form("interpret");
    reset_driver_calls();
    RunReport got = run_workload(program, layout, {}, plan);
    CHECK(driver_calls("cuLaunchKernelEx") == 0);
    CHECK(got.digest == want.digest);
    REQUIRE(got.stats.size() == want.stats.size());
    for (size_t i = 0; i < want.stats.size(); ++i) {
      for (const auto& [report, value] : want.stats[i].values) {
        double other = got.stats[i].at(report);
        CHECK((value == other || (value != value && other != other)));
      }
    }
  }
}

TEST_CASE(
    "an interpreted step of a CUDA device takes arguments from a block, but is not captured") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  const Trainer::Sizes sizes = {300, 1, 17};
  Trainer want(Device::interpreter(), Form::fused, sizes);
  ForcedForm form("interpret");
  TestStream stream;
  Trainer t(Device::cuda(), Form::fused, sizes);
  for (int i = 0; i < 4; ++i) {
    want.run(i, 0);
    std::vector<void*> g = t.gradients(i, 0);
    t.step().set_args(t.args(i), stream.stream());
    if (i % 2 == 1) t.step().reduce_captured(g, stream.stream());
    t.step().run_captured(g, stream.stream());
  }
  CHECK(t.weights() == want.weights());
  stream.begin_capture();
  std::vector<void*> g = t.gradients(0, 0);
  CHECK_THROWS_WITH_AS(t.step().run_captured(g, stream.stream()),
                       doctest::Contains("without capturing"), Error);
  CHECK(stream.drop_capture() == 0);
}
