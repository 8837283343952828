// The shortest program that uses stepfuse: a fused AdamW step with gradient clipping, in f32, on the CPU.
// Knows stepfuse only.
#include <cstdio>
#include <vector>

#include <stepfuse/stepfuse.hpp>

namespace sf = stepfuse;

int main() {
  std::vector<float> weight(1000, 1.0F), gradient(1000), exp_avg(1000), exp_avg_sq(1000);

  sf::Layout layout;  // names, sizes and groups of the parameter tensors; no pointers
  layout.add({.name = "weight", .elements = 1000});
  sf::Step step(sf::make_recipe("adamw", {.clip = sf::Clip::l2}), layout, sf::Device::cpu());
  step.prepare();  // compiles the kernel; run() never compiles

  step.bind("weight", {weight});  // one array per tensor; they must stay alive
  step.bind("exp_avg", {exp_avg});
  step.bind("exp_avg_sq", {exp_avg_sq});
  step.init_state();  // sets the moments to zero

  const std::vector<void*> gradients = step.gradients({gradient});  // checked once
  sf::Args args = step.make_args();
  for (int i = 0; i < 200; ++i) {
    gradient = weight;                       // the gradient of |weight|^2 / 2
    args.set("lr", 0.01 * (1 - i / 200.0));  // an argument is data: no schedule recompiles
    step.run(gradients, args);
  }
  std::optional<sf::StepStats> stats = step.latest();  // the newest finished step
  if (stats)
    std::printf("weight %g, gradient norm %g\n", double{weight[0]}, stats->at("grad_norm"));
}
