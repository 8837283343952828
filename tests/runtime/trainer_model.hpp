// A model as a trainer owns it, without a network: parameter arrays, and gradients from a formula of
// tensor, element and step that come at new addresses every time. Knows the public API.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

namespace stepfuse::testing {

class TrainerModel {
 public:
  struct Tensor {
    size_t size = 0;
    int group = 0;
    std::vector<uint16_t> weight;  // f16
    std::vector<float> master, exp_avg, exp_avg_sq;
    friend bool operator==(const Tensor&, const Tensor&) = default;
  };

  explicit TrainerModel(uint64_t seed) : seed_(seed) {}

  void add(size_t size, int group);
  TensorSpec spec(size_t tensor) const;
  Layout layout() const;
  void bind(Step& step);

  // f16 gradients of step `index`, each in memory of its own; those of the last steps stay valid, so
  // that addresses differ. `missing` has none; `bad` has an infinity in it. -1: no such tensor.
  std::vector<void*> gradients(int index, int missing = -1, int bad = -1);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  void restore(std::vector<Tensor> tensors);  // into the arrays as they are bound
  std::string digest(const Step& step) const;

 private:
  uint64_t seed_;
  std::vector<Tensor> tensors_;
  std::deque<std::vector<uint16_t>> gradients_;
};

// A per-tensor state as integers.
std::vector<int64_t> counts(const Step& step, std::string_view state);

}  // namespace stepfuse::testing
