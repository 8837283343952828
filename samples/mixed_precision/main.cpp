// A mixed-precision step: f16 weights and gradients, f32 master weights, dynamic loss scaling and
// clipping, two parameter groups. Knows stepfuse, and how to convert f16.
#include <cstdio>
#include <vector>

#include <stepfuse/stepfuse.hpp>

#include "samples/half.hpp"

namespace sf = stepfuse;

// A stand-in for a network: computes the gradient of scale * |w|^2 / 2.
static void backward(const std::vector<uint16_t>& w, float scale, std::vector<uint16_t>& gradient) {
  for (size_t i = 0; i < w.size(); ++i)
    gradient[i] = half::from_float(scale * half::to_float(w[i]));
}

int main() {
  std::vector<uint16_t> weight(1000, half::from_float(1)), bias(10, half::from_float(1));  // f16
  std::vector<uint16_t> weight_grad(1000), bias_grad(10);                                  // f16
  std::vector<float> master(1010), exp_avg(1010), exp_avg_sq(1010);

  sf::Layout layout;  // names, sizes and groups of the parameter tensors; no pointers
  layout.add({.name = "weight", .elements = 1000, .group = 0});
  layout.add({.name = "bias", .elements = 10, .group = 1});

  sf::LossScaler scaler({.init_scale = 1024});  // several steps may share it
  sf::RecipeOptions options{.grad = sf::DType::f16,
                            .master = true,
                            .loss_scale = sf::LossScale::dynamic,
                            .clip = sf::Clip::l2};
  sf::Step step(sf::make_recipe("adamw", options), layout, sf::Device::cpu(), {.scaler = &scaler});
  step.prepare();  // compiles the kernel; run() never compiles

  // One array per tensor; types and lengths are checked.
  step.bind("weight", {weight, bias});
  step.bind("master", {{&master[0], 1000}, {&master[1000], 10}});
  step.bind("exp_avg", {{&exp_avg[0], 1000}, {&exp_avg[1000], 10}});
  step.bind("exp_avg_sq", {{&exp_avg_sq[0], 1000}, {&exp_avg_sq[1000], 10}});
  step.init_state();  // copies the weights to the masters, sets the moments to zero

  const std::vector<void*> gradients = step.gradients({weight_grad, bias_grad});
  sf::Args args = step.make_args();
  args.set("weight_decay", sf::Group{1}, 0.0);  // none for the bias
  for (int i = 0; i < 200; ++i) {
    backward(weight, *scaler.device_scale(), weight_grad);  // f16 gradients of the scaled loss
    backward(bias, *scaler.device_scale(), bias_grad);
    args.set("lr", 0.01 * (1 - i / 200.0));  // an argument is data: no schedule recompiles
    step.run(gradients, args);               // with nullptr a tensor has no gradient
    sf::StepStats s = *step.latest();        // the newest finished step
    if (i % 40 == 0) std::printf("%3d  gradient norm %g\n", i, s.at("grad_norm"));
  }
  std::printf("weight %g, bias %g\n", double{master[0]}, double{master[1000]});
}
