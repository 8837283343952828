// AdamW over a few tensors in two groups, with a norm for each group and scales for each tensor: what
// depends on which group a tensor is in, and on its own arguments. Knows the public API.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <stepfuse/stepfuse.hpp>

#include "runtime/cuda/host_access.hpp"

namespace stepfuse::testing {

class GroupedStep {
 public:
  // `groups`: of each tensor. Without `scaled` the step has no arguments for tensors.
  GroupedStep(const Device& device, const std::vector<int>& groups, bool scaled = true,
              Form form = Form::fused)
      : layout_(layout_of(groups)) {
    size_t bytes = 4 * layout_.element_count() * sizeof(float);
    bytes = (bytes + kPage - 1) / kPage * kPage;
    memory_.reset(static_cast<float*>(std::aligned_alloc(kPage, bytes)));
    std::span<char> all(reinterpret_cast<char*>(memory_.get()), bytes);
    std::fill(all.begin(), all.end(), char{0});
    if (device.kind() == Device::Kind::cuda) access_.emplace_back(device.ordinal(), all);
    RecipeOptions options{.clip = Clip::l2, .clip_per_group = true};
    if (scaled) options.per_tensor = {"lr", "weight_decay"};
    step_.emplace(make_recipe("adamw", options), layout_, device, StepOptions{.form = form});
    step_->prepare();
    const char* names[] = {"weight", "exp_avg", "exp_avg_sq"};
    for (size_t i = 0; i < 3; ++i) step_->bind_raw(names[i], arrays(i));
    step_->init_state();
    for (size_t i = 0; i < layout_.element_count(); ++i) {
      memory_[i] = 0.01F * static_cast<float>(i % 97) - 0.3F;
    }
    args.emplace(step_->make_args());
    args->set("lr", Group{0}, 0.1);
    args->set("lr", Group{1}, 0.2);
    args->set("max_norm", Group{0}, 1.5);
    args->set("max_norm", Group{1}, 40);
  }

  Step& step() { return *step_; }
  void run(int i) {
    float* grads = &memory_[3 * layout_.element_count()];
    for (size_t k = 0; k < layout_.element_count(); ++k) {
      grads[k] = static_cast<float>((k * 7 + static_cast<size_t>(i) * 13) % 31) * 0.1F - 1.2F;
    }
    step_->run(arrays(3), *args);
    (void)step_->stats();  // waits
  }
  std::vector<float> weights() const {
    return {memory_.get(), memory_.get() + 3 * layout_.element_count()};
  }

  std::optional<Args> args;

 private:
  static Layout layout_of(const std::vector<int>& groups) {
    Layout layout;
    layout.reserve_groups(2);
    const uint64_t sizes[] = {17, 3, 50};
    for (size_t t = 0; t < groups.size(); ++t) {
      layout.add({.elements = t == 0 ? 20000 : sizes[t % 3], .group = groups[t]});
    }
    return layout;
  }
  std::vector<float*> arrays(size_t buffer) {
    std::vector<float*> out;
    float* next = &memory_[buffer * layout_.element_count()];
    for (const TensorSpec& t : layout_.tensors()) {
      out.push_back(next);
      next += t.elements;
    }
    return out;
  }

  static constexpr size_t kPage = 4096;
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  Layout layout_;
  std::unique_ptr<float[], Free> memory_;
  std::vector<cuda::HostAccess> access_;
  std::optional<Step> step_;
};

}  // namespace stepfuse::testing
