// A small trainer on the fake device: one f32 AdamW step with scaler and clipping over a few
// tensors, in host memory that is registered with the device. Knows the public API.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

#include "runtime/cuda/host_access.hpp"

namespace stepfuse::testing {

class Trainer {
 public:
  static constexpr int kHomes = 3;      // locations of gradients
  using Sizes = std::vector<uint64_t>;  // of the tensors; a size of 1 is a group of its own
  explicit Trainer(const Device& device, Form form = Form::fused,
                   Sizes sizes = {5000, 1, 300, 16384});

  Step& step() { return *step_; }
  LossScaler& scaler() { return scaler_; }
  Args args(int i);                               // of step i: lr follows a cosine
  std::vector<void*> gradients(int i, int home);  // of step i, with an overflow in step overflow_at
  void run(int i, int home, Stream stream = {}) { step().run(gradients(i, home), args(i), stream); }
  std::vector<float> weights();  // and moments, and the scale
  // The arrays bound to buffer 0, 1, 2 (weight, exp_avg, exp_avg_sq).
  std::vector<void*> arrays(size_t buffer);
  int overflow_at = 5;

 private:
  float* array(size_t buffer, size_t tensor);
  Sizes sizes_;
  size_t total_ = 0;
  struct Free {
    void operator()(char* p) const;
  };
  std::unique_ptr<char, Free> memory_;
  std::vector<cuda::HostAccess> access_;
  LossScaler scaler_;
  std::unique_ptr<Step> step_;
  ArgId lr_;
};

}  // namespace stepfuse::testing
