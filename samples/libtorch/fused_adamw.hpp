// torch::optim::AdamW and clip_grad_norm_ in one step, over a libtorch module's own parameters.
// Knows libtorch and the public API.
#pragma once

#include <string>
#include <torch/torch.h>
#include <vector>

#include <stepfuse/stepfuse.hpp>

struct FusedAdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  double max_norm = 1;
};

class FusedAdamW {
 public:
  using Named = torch::OrderedDict<std::string, torch::Tensor>;

  // Groups as torch's, each with its own weight decay. Throws, naming the parameter, if one is not
  // f32, not contiguous or not on the CPU.
  struct Group {
    std::vector<Named::Item> params;
    double weight_decay = 0.01;
  };
  FusedAdamW(std::vector<Group> groups, const FusedAdamWOptions& options);

  void set_lr(double lr) { args_->set("lr", lr); }
  // Skips parameters with an undefined gradient, including their step count. Copies a gradient
  // whose strides differ from its parameter's. Refuses a sparse gradient.
  void step();
  void zero_grad();
  // The norm of the last step's gradients before clipping.
  double grad_norm() const { return step_->latest()->at("grad_norm"); }

 private:
  std::vector<Named::Item> params_;
  std::vector<torch::Tensor> exp_avg_, exp_avg_sq_;
  std::optional<stepfuse::Step> step_;
  std::optional<stepfuse::Args> args_;
  std::vector<torch::Tensor> copies_;
  std::vector<void*> gradients_;
};
