// Steps on a CUDA device, executed by the PTX machine: the interpreter's bits in every form, whatever
// the layout, the inputs, the options and the interleaving.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ir/recipes/recipes.hpp"
#include "tests/cuda/fake_device.hpp"
#include "tools/workload/runner.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

LayoutFile odd_layout() {
  return parse_layout(R"({"name": "odd", "tensors": [
    {"name": "a", "shape": [3001], "misalign": 1},
    {"name": "b", "shape": [0]},
    {"name": "c", "shape": [1], "group": 1},
    {"name": "d", "shape": [16385], "group": 1, "misalign": {"grad": 3}},
    {"name": "e", "shape": [247]},
    {"name": "f", "shape": [256], "misalign": 2}]})");
}

struct Options {
  std::string name;
  RecipeOptions recipe;
};

const std::vector<Options>& recipes() {
  static const std::vector<Options> list = {
      {"plain", {}},
      {"f16 grads, master, scaler, clip, zeroing",
       {.grad = DType::f16,
        .master = true,
        .loss_scale = LossScale::dynamic,
        .clip = Clip::l2,
        .zero_grad = true}},
      {"f32, scaler, clip", {.loss_scale = LossScale::dynamic, .clip = Clip::l2}},
      {"bf16 all over, rounded gradients",
       {.grad = DType::bf16,
        .moments = DType::bf16,
        .master = true,
        .clip = Clip::l2,
        .round_grad = true}},
      {"inf norm, amsgrad", {.clip = Clip::inf, .amsgrad = true}},
  };
  return list;
}

RunReport run_on(const Device& device, const RecipeOptions& recipe, RunPlan plan) {
  plan.device = device;
  return run_workload(make_recipe("adamw", recipe), odd_layout(), {}, plan);
}

void compare(const RecipeOptions& recipe, const RunPlan& plan) {
  std::string want = run_on(Device::interpreter(), recipe, plan).digest;
  RunReport got = run_on(Device::cuda(), recipe, plan);
  INFO(driver_report());
  CHECK(got.digest == want);
  CHECK(got.stats.size() == static_cast<size_t>(plan.steps));
}

}  // namespace

TEST_CASE("every form has the interpreter's bits") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  for (const Options& o : recipes()) {
    for (Form form : {Form::fused, Form::split, Form::unfused}) {
      CAPTURE(o.name);
      CAPTURE(name(form));
      RunPlan plan;
      plan.form = form;
      plan.steps = 4;
      plan.inputs = {.inputs = Inputs::special, .absent = 0.2, .moving = true};
      plan.vary_args = true;
      compare(o.recipe, plan);
    }
  }
}
