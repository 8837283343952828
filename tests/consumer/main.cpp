// A program of somebody else's that uses stepfuse: it only has to build and run.
#include <cstdio>
#include <vector>

#include <stepfuse/checkpoint.hpp>
#include <stepfuse/monitor.hpp>
#include <stepfuse/stepfuse.hpp>

#include "compiler/form.hpp"
#include "ir/program/types.hpp"

int main() {
  static_assert(sizeof(stepfuse::Bits) == 8);
  stepfuse::Program p = stepfuse::make_recipe("adamw", {.clip = stepfuse::Clip::l2});
  stepfuse::Layout layout;
  layout.add({.name = "w", .elements = 1000});
  stepfuse::Step step(p, layout, stepfuse::Device::interpreter());
  std::vector<float> weight(1000), exp_avg(1000), exp_avg_sq(1000), grad(1000, 1);
  std::vector<float*> gradients = {grad.data()};
  std::vector<float*> weights = {weight.data()};
  step.prepare();
  step.bind_raw("weight", weights);  // as they are: no void* needed
  step.bind("exp_avg", {exp_avg});
  step.bind("exp_avg_sq", std::vector<std::span<float>>{exp_avg_sq});
  step.init_state();
  step.run(gradients, step.make_args());
  step.run(std::span<float* const>(gradients), step.make_args());
  step.run(step.gradients({grad}), step.make_args());
  step.run({grad.data()}, step.make_args());
  try {
    stepfuse::parse("nonsense");
    return 1;
  } catch (const stepfuse::Error& e) {  // also across the shared library's border
    std::printf("%zu bytes, %d\n", step.workspace_bytes(),
                consumer::own_types() + consumer::own_form());
    return weight[0] < 0 && e.kind() == stepfuse::ErrorKind::parse ? 0 : 1;
  }
}
