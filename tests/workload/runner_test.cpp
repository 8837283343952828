// Steps over seeded workloads: equal digests where bits must be equal, different where they must not.
#include "tools/workload/runner.hpp"

#include <cmath>

#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>

#include "runtime/cpu/llvm_compiler.hpp"

using namespace stepfuse;

namespace {

const RecipeOptions kWhole = {.grad = DType::f16,
                              .master = true,
                              .loss_scale = LossScale::dynamic,
                              .clip = Clip::l2,
                              .zero_grad = true};

LayoutFile odd_layout() {
  return parse_layout(R"({"name": "odd", "tensors": [
    {"name": "a", "shape": [3001], "misalign": 1},
    {"name": "b", "shape": [0]},
    {"name": "c", "shape": [1], "group": 1},
    {"name": "d", "shape": [16385], "group": 1, "misalign": {"grad": 3}}]})");
}

RunPlan run_plan() {
  RunPlan p;
  p.device = Device::interpreter();
  p.inputs.inputs = Inputs::special;
  return p;
}

std::string digest(const RunPlan& p, const RecipeOptions& o = kWhole) {
  return run_workload(make_recipe("adamw", o), odd_layout(), {}, p).digest;
}

}  // namespace

TEST_CASE("the same plan has the same digest, and each part of it another") {
  RunPlan base = run_plan();
  std::string d = digest(base);
  CHECK(d.size() == 32);
  CHECK(digest(base) == d);
  auto changed = [&](auto change) {
    RunPlan p = run_plan();
    change(p);
    return digest(p) != d;
  };
  CHECK(changed([](RunPlan& p) { p.inputs.seed = 2; }));
  CHECK(changed([](RunPlan& p) { p.inputs.inputs = Inputs::normal; }));
  CHECK(changed([](RunPlan& p) { p.steps = 5; }));
  CHECK(changed([](RunPlan& p) { p.inputs.absent = 0.5; }));
  CHECK(changed([](RunPlan& p) { p.vary_args = true; }));
  CHECK(changed([](RunPlan& p) { p.init_scale = 1024; }));
  CHECK(changed([](RunPlan& p) { p.args = {{"lr", -1, 0.5}}; }));
  CHECK(changed([](RunPlan& p) { p.args = {{"lr", 1, 0.5}}; }));
}

TEST_CASE("what must not change a bit does not") {
  std::string d = digest(run_plan());
  auto same = [&](auto change) {
    RunPlan p = run_plan();
    change(p);
    return digest(p) == d;
  };
  CHECK(same([](RunPlan& p) { p.form = Form::unfused; }));
  CHECK(same([](RunPlan& p) { p.form = Form::split; }));
  CHECK(same([](RunPlan& p) { p.inputs.moving = true; }));
  CHECK(same([](RunPlan& p) { p.observe = true; }));
  CHECK(same([](RunPlan& p) { p.args = {{"lr", -1, 0.001}}; }));
}

TEST_CASE("special inputs bring good steps, overflows and overflowing norms") {
  RecipeOptions o = kWhole;
  o.grad = DType::bf16;
  RunReport r = run_workload(make_recipe("adamw", o), odd_layout(), {}, run_plan());
  REQUIRE(r.stats.size() == 4);
  CHECK(r.seconds.size() == 4);
  std::vector<double> found_inf;
  std::vector<double> overflow;
  for (const StepStats& s : r.stats) {
    found_inf.push_back(s.at("found_inf"));
    overflow.push_back(s.at("norm_overflow"));
  }
  CHECK(found_inf == std::vector<double>{0, 1, 0, 0});
  CHECK(overflow == std::vector<double>{0, 0, 0, 1});
  CHECK(std::isfinite(r.stats[0].at("grad_norm")));
  CHECK(r.workspace_bytes > 0);
}

TEST_CASE("single inputs bring one non-finite gradient into every second step") {
  Program program = make_recipe("adamw", {.grad = DType::f32});
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Workload workload(program, odd_layout(), {},
                      {.seed = seed, .inputs = Inputs::single, .absent = 0.3});
    for (uint64_t index = 0; index < 4; ++index) {
      std::span<void* const> given = workload.gradients(index);
      int nonfinite = 0;
      uint64_t elements = 0;
      for (size_t t = 0; t < given.size(); ++t) {
        if (given[t] == nullptr) continue;
        uint64_t size = workload.layout().tensors()[t].elements;
        std::span<const float> values(static_cast<const float*>(given[t]), size);
        elements += size;
        for (float v : values) nonfinite += std::isfinite(v) ? 0 : 1;
      }
      CHECK(nonfinite == (index % 2 == 1 && elements > 0 ? 1 : 0));
    }
  }
}

TEST_CASE("a program without gradients or tensors runs too") {
  RunPlan p = run_plan();
  RunReport r = run_workload(make_recipe("loss_scale_update", {}), {.name = "none"}, {}, p);
  CHECK(r.digest.size() == 32);
}

TEST_CASE("tensors without a gradient are left alone") {
  RunPlan p = run_plan();
  p.inputs.absent = 1;
  p.steps = 1;
  RecipeOptions o = {.grad = DType::f32};
  std::string one = digest(p, o);
  p.steps = 0;
  CHECK(one != digest(p, o));  // the gradient buffer was filled
  p.steps = 1;
  p.args = {{"lr", -1, 100}};
  CHECK(one == digest(p, o));  // but nothing was updated
}

TEST_CASE("mistakes throw what a step throws") {
  RunPlan p = run_plan();
  p.args = {{"lrr", -1, 1}};
  CHECK_THROWS_AS(digest(p), Error);
  p.args = {{"lr", 7, 1}};
  CHECK_THROWS_AS(digest(p), Error);
}

TEST_CASE("interpreter and CPU agree in every form, on one and two threads") {
  if (!llvm_status().available) {
    MESSAGE("skipped: no LLVM: " << llvm_status().problem);
    return;
  }
  std::string d = digest(run_plan());
  for (Form form : {Form::fused, Form::split, Form::unfused}) {
    for (int threads : {1, 2}) {
      RunPlan p = run_plan();
      p.device = Device::cpu(threads);
      p.form = form;
      p.inputs.moving = true;
      CHECK(digest(p) == d);
      p.observe = form != Form::unfused;
      CHECK(digest(p) == d);
    }
  }
}
