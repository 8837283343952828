// The small trainer. Knows the public API.
#include "tests/support/trainer.hpp"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace stepfuse::testing {

namespace {
constexpr size_t kPage = 4096;
}  // namespace

void Trainer::Free::operator()(char* p) const { std::free(p); }

// Three buffers and the homes of the gradients, one behind the other.
float* Trainer::array(size_t buffer, size_t tensor) {
  size_t at = buffer * total_;
  for (size_t t = 0; t < tensor; ++t) at += sizes_[t];
  return reinterpret_cast<float*>(memory_.get()) + at;
}

Trainer::Trainer(const Device& device, Form form, Sizes sizes)
    : sizes_(std::move(sizes)), scaler_({.growth_interval = 3}) {
  Layout layout;
  for (uint64_t n : sizes_) {
    layout.add({.elements = n, .group = n == 1 ? 1 : 0});
    total_ += n;
  }
  size_t bytes = ((3 + kHomes) * total_ * sizeof(float) + kPage - 1) / kPage * kPage;
  memory_.reset(static_cast<char*>(std::aligned_alloc(kPage, bytes)));
  std::memset(memory_.get(), 0, bytes);
  for (size_t i = 0; i < total_; ++i) array(0, 0)[i] = std::sin(static_cast<float>(i));
  if (device.kind() == Device::Kind::cuda) {
    access_.emplace_back(device.ordinal(), std::span(memory_.get(), bytes));
  }
  Program program = make_recipe("adamw", {.loss_scale = LossScale::dynamic, .clip = Clip::l2});
  step_ = std::make_unique<Step>(program, layout, device,
                                 StepOptions{.form = form, .scaler = &scaler_, .observe = true});
  step_->prepare();
  const char* names[] = {"weight", "exp_avg", "exp_avg_sq"};
  for (size_t b = 0; b < 3; ++b) step_->bind_raw(names[b], arrays(b));
  step_->init_state();
  lr_ = step_->arg("lr");
}

std::vector<void*> Trainer::arrays(size_t buffer) {
  std::vector<void*> pointers;
  for (size_t t = 0; t < sizes_.size(); ++t) pointers.push_back(array(buffer, t));
  return pointers;
}

Args Trainer::args(int i) {
  Args args = step_->make_args();
  args.set(lr_, 0.01 * (1 + std::cos(0.1 * i)));
  return args;
}

std::vector<void*> Trainer::gradients(int i, int home) {
  size_t buffer = 3 + static_cast<size_t>(home);
  std::vector<void*> pointers = arrays(buffer);
  for (size_t k = 0; k < total_; ++k) {
    array(buffer, 0)[k] =
        65536.0F * std::cos(static_cast<float>(k + 7) * static_cast<float>(i + 1));
  }
  if (i == overflow_at) array(buffer, 0)[total_ / 5] = std::numeric_limits<float>::infinity();
  return pointers;
}

std::vector<float> Trainer::weights() {
  step_->stats();  // waits
  std::vector<float> out(array(0, 0), array(0, 0) + 3 * total_);
  out.push_back(static_cast<float>(scaler_.read()));
  return out;
}

}  // namespace stepfuse::testing
