// Steps on a CUDA device, executed by the PTX machine: the interpreter's bits in every form, whatever
// the layout, the inputs, the options and the interleaving.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>

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
    {"name": "f", "shape": [256], "misalign": 2},
    {"name": "alone", "shape": [40], "group": 2}]})");
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

TEST_CASE("three storage types of gradients in one launch") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  LayoutFile layout = parse_layout(R"({"name": "mixed", "tensors": [
    {"name": "a", "shape": [3001], "dtypes": {"grad": "f16"}},
    {"name": "b", "shape": [70], "dtypes": {"grad": "bf16"}, "misalign": 1},
    {"name": "c", "shape": [16390], "dtypes": {"grad": "bf16"}},
    {"name": "d", "shape": [900], "group": 1, "dtypes": {"grad": "f32"}},
    {"name": "e", "shape": [5], "dtypes": {"grad": "f16"}}]})");
  Program program = make_recipe("adamw", {.grad = DTypeSet(DType::f16) | DType::bf16 | DType::f32,
                                          .master = true,
                                          .loss_scale = LossScale::dynamic,
                                          .clip = Clip::l2,
                                          .zero_grad = true});
  RunPlan plan;
  plan.inputs = {.inputs = Inputs::special, .moving = true};
  plan.vary_args = true;
  for (Form form : {Form::fused, Form::unfused}) {
    plan.form = form;
    plan.device = Device::interpreter();
    std::string want = run_workload(program, layout, {}, plan).digest;
    plan.device = Device::cuda();
    CAPTURE(name(form));
    CHECK(run_workload(program, layout, {}, plan).digest == want);
  }
}

TEST_CASE("every interleaving of blocks gives the same bits") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  RunPlan plan;
  plan.steps = 2;
  std::string want = run_on(Device::interpreter(), recipes()[1].recipe, plan).digest;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    seed_driver(seed);
    CAPTURE(seed);
    CHECK(run_on(Device::cuda(), recipes()[1].recipe, plan).digest == want);
  }
}

TEST_CASE("group hyperparameters beyond what fits into a launch's parameters") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  std::string text = R"({"name": "groups", "tensors": [)";
  for (int i = 0; i < 40; ++i) {
    text += R"({"name": "t", "shape": [33], "group": )" + std::to_string(i % 20) + "},";
  }
  text += R"({"name": "last", "shape": [400]}]})";
  RunPlan plan;
  plan.vary_args = true;
  Program program = make_recipe("adamw", {.clip = Clip::l2});
  plan.device = Device::interpreter();
  std::string want = run_workload(program, parse_layout(text), {}, plan).digest;
  plan.device = Device::cuda();
  CHECK(run_workload(program, parse_layout(text), {}, plan).digest == want);
}
