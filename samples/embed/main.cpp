// The shortest program that uses stepfuse: a fused AdamW step with gradient clipping, in f32, on the CPU.
// Knows stepfuse only.
#include <cstdio>
#include <vector>

#include <stepfuse/stepfuse.hpp>

namespace sf = stepfuse;

int main() {
  std::vector<float> weight(1000, 1.0F), gradient(1000), exp_avg(1000), exp_avg_sq(1000);

  sf::Layout layout;  // names, sizes and groups of the parameter tensors; no pointers
  layout.add({.name = "weight", .size = 1000});
  sf::Step step(sf::make_recipe("adamw", {.clip = sf::Clip::l2}), layout, sf::Device::cpu());
  step.prepare();  // compiles the kernel; run() never compiles

  step.bind("weight", {{weight.data()}});  // one pointer per tensor; the arrays must stay alive
  step.bind("exp_avg", {{exp_avg.data()}});
  step.bind("exp_avg_sq", {{exp_avg_sq.data()}});
  step.init_state();  // sets the moments to zero

  sf::Args args = step.make_args();
  for (int i = 0; i < 200; ++i) {
    gradient = weight;                       // the gradient of |weight|^2 / 2
    args.set("lr", 0.01 * (1 - i / 200.0));  // an argument is data: no schedule recompiles
    step.run({{gradient.data()}}, args);
  }
  std::optional<sf::StepStats> stats = step.latest();  // the newest finished step
  if (stats)
    std::printf("weight %g, gradient norm %g\n", double{weight[0]}, stats->at("grad_norm"));
}
