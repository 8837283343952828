// A real GPU against this machine's CPU: the same digests for every form, recipe, layout and kind of
// input. Skips with its reason where there is no device.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>

#include "runtime/cpu/llvm_compiler.hpp"
#include "tests/gpu/skip.hpp"
#include "tools/workload/runner.hpp"

using namespace stepfuse;

namespace {

// Interpreted where there is no LLVM: the same bits, only slower.
Device host() { return llvm_status().available ? Device::cpu() : Device::interpreter(); }

LayoutFile sizes() {
  return parse_layout(R"({"name": "sizes", "tensors": [
    {"name": "embedding", "shape": [3000, 512]},
    {"name": "odd", "shape": [100003], "misalign": 1},
    {"name": "empty", "shape": [0]},
    {"name": "one", "shape": [1], "group": 1},
    {"name": "bias", "shape": [247], "group": 1},
    {"name": "shifted", "shape": [16385], "group": 1, "misalign": {"grad": 3}},
    {"name": "exact", "shape": [1048576]},
    {"name": "alone", "shape": [999], "group": 2}]})");
}

struct Recipe {
  std::string name;
  RecipeOptions options;
};

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> list = {
      {"plain f32", {}},
      {"f32, scaler, clip", {.loss_scale = LossScale::dynamic, .clip = Clip::l2}},
      {"f16, master, scaler, clip, zeroing",
       {.grad = DType::f16,
        .master = true,
        .loss_scale = LossScale::dynamic,
        .clip = Clip::l2,
        .zero_grad = true}},
      {"bf16, master, bf16 moments, rounded gradients",
       {.grad = DType::bf16,
        .moments = DType::bf16,
        .master = true,
        .clip = Clip::l2,
        .round_grad = true}},
      {"amsgrad, inf norm", {.clip = Clip::inf, .amsgrad = true}},
  };
  return list;
}

std::string digest(const Recipe& r, const LayoutFile& layout, RunPlan plan, const Device& device) {
  plan.device = device;
  // Below every norm, so that clipping acts.
  if (r.options.clip != Clip::none) plan.args.push_back({.name = "max_norm", .value = 0.001});
  return run_workload(make_recipe("adamw", r.options), layout, {}, plan).digest;
}

}  // namespace

TEST_CASE("the GPU has the CPU's bits, in every form and with every input") {
  STEPFUSE_NEEDS_GPU();
  for (const Recipe& r : recipes()) {
    for (Inputs inputs : {Inputs::normal, Inputs::special, Inputs::single}) {
      RunPlan plan;
      plan.steps = 6;
      plan.vary_args = true;
      plan.inputs = {.inputs = inputs, .absent = 0.2, .moving = true};
      std::string want = digest(r, sizes(), plan, host());
      for (Form form : {Form::fused, Form::split, Form::unfused}) {
        plan.form = form;
        CAPTURE(r.name);
        CAPTURE(name(form));
        CHECK(digest(r, sizes(), plan, Device::cuda()) == want);
      }
      if (r.options.clip == Clip::none) continue;
      plan.form = Form::fused;
      plan.observe = true;  // of steps that measure before they update
      CHECK(digest(r, sizes(), plan, Device::cuda()) == want);
    }
  }
}

TEST_CASE("many runs of one step stay equal: no launch leaves anything behind") {
  STEPFUSE_NEEDS_GPU();
  RunPlan plan;
  plan.steps = 200;
  const Recipe& r = recipes()[1];
  CHECK(digest(r, sizes(), plan, Device::cuda()) == digest(r, sizes(), plan, host()));
}

TEST_CASE("ten thousand tiny tensors") {
  STEPFUSE_NEEDS_GPU();
  std::string text = R"({"name": "tiny", "tensors": [)";
  for (int i = 0; i < 10000; ++i) {
    text += R"({"name": "t", "shape": [)" + std::to_string(i % 300) + R"(], "group": )" +
            std::to_string(i % 3) + "},";
  }
  text += R"({"name": "last", "shape": [5]}]})";
  RunPlan plan;
  plan.inputs.inputs = Inputs::special;
  const Recipe& r = recipes()[2];
  CHECK(digest(r, parse_layout(text), plan, Device::cuda()) ==
        digest(r, parse_layout(text), plan, host()));
}
