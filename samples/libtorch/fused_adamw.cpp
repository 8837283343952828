// Binds a step to tensors' data_ptr(); what libtorch may hand over and a step cannot take is named.
// Knows libtorch and the public API.
#include "samples/libtorch/fused_adamw.hpp"

#include <ATen/Parallel.h>

namespace sf = stepfuse;

namespace {

void check(const std::string& name, const torch::Tensor& p) {
  TORCH_CHECK(p.scalar_type() == torch::kFloat, name, " is ", p.scalar_type(),
              ": this step was made for f32");
  TORCH_CHECK(p.device().is_cpu(), name, " is on ", p.device(), ": this step was made for the CPU");
  TORCH_CHECK(p.is_contiguous(), name, " is not contiguous (strides ", p.strides(),
              "): make it so before the optimizer, p.set_data(p.contiguous())");
}

std::vector<sf::Array> arrays_of(const std::vector<torch::Tensor>& tensors) {
  std::vector<sf::Array> out;
  for (const torch::Tensor& t : tensors) {
    out.emplace_back(t.data_ptr<float>(), static_cast<uint64_t>(t.numel()));
  }
  return out;
}

}  // namespace

FusedAdamW::FusedAdamW(std::vector<Group> groups, const FusedAdamWOptions& options) {
  sf::Layout layout;
  std::vector<torch::Tensor> weights;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (Named::Item& item : groups[g].params) {
      check(item.key(), item.value());
      layout.add({.name = item.key(),
                  .elements = static_cast<uint64_t>(item.value().numel()),
                  .group = static_cast<int>(g)});
      weights.push_back(item.value());
      exp_avg_.push_back(torch::zeros_like(item.value()));
      exp_avg_sq_.push_back(torch::zeros_like(item.value()));
      params_.push_back(std::move(item));
    }
  }
  step_.emplace(
      sf::make_recipe("adamw", {.clip = sf::Clip::l2, .profile = sf::Profile::torch_foreach}),
      layout, sf::Device::cpu(at::get_num_threads()));
  step_->prepare();
  step_->bind("weight", arrays_of(weights));
  step_->bind("exp_avg", arrays_of(exp_avg_));
  step_->bind("exp_avg_sq", arrays_of(exp_avg_sq_));
  step_->init_state();

  args_ = step_->make_args();
  args_->set("lr", options.lr);
  args_->set("beta1", options.beta1);
  args_->set("beta2", options.beta2);
  args_->set("eps", options.eps);
  args_->set("max_norm", options.max_norm);
  for (size_t g = 0; g < groups.size(); ++g) {
    args_->set("weight_decay", sf::Group{static_cast<int>(g)}, groups[g].weight_decay);
  }
  gradients_.resize(params_.size());
  copies_.reserve(params_.size());
}

void FusedAdamW::step() {
  torch::NoGradGuard no_grad;
  copies_.clear();
  for (size_t i = 0; i < params_.size(); ++i) {
    const torch::Tensor& p = params_[i].value();
    torch::Tensor grad = p.grad();
    gradients_[i] = nullptr;
    if (!grad.defined()) continue;
    TORCH_CHECK(grad.layout() == torch::kStrided, "the gradient of ", params_[i].key(), " is ",
                grad.layout(), ": make it dense, or leave the parameter out");
    if (!grad.is_contiguous()) {
      copies_.push_back(grad.contiguous());  // until the step has read it
      grad = copies_.back();
    }
    gradients_[i] = grad.data_ptr();
  }
  step_->run(gradients_, *args_);
  // So that autograd notices what it cannot see.
  for (size_t i = 0; i < params_.size(); ++i) {
    if (gradients_[i] != nullptr) params_[i].value().unsafeGetTensorImpl()->bump_version();
  }
}

void FusedAdamW::zero_grad() {
  for (Named::Item& item : params_) item.value().mutable_grad().reset();
}
