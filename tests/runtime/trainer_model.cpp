// Arrays and gradients of the trainer's model. Knows the public API and the runtime's digest.
#include "tests/runtime/trainer_model.hpp"

#include <algorithm>

#include "runtime/saved/digest.hpp"

namespace stepfuse::testing {
namespace {

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

// A finite f16 of any sign, from 2^-12 to 8; now and then a zero or a subnormal.
uint16_t random_half(uint64_t key) {
  uint64_t r = mix(key);
  uint64_t exponent = r % 97 == 0 ? 0 : 3 + (r >> 8U) % 15;
  return static_cast<uint16_t>(((r >> 20U) & 0x8000U) | (exponent << 10U) | ((r >> 40U) & 0x3FFU));
}

}  // namespace

void TrainerModel::add(size_t size, int group) {
  Tensor t{size,
           group,
           std::vector<uint16_t>(size),
           std::vector<float>(size, -1.0F),
           std::vector<float>(size, 7.0F),
           std::vector<float>(size, 7.0F)};
  for (size_t i = 0; i < size; ++i) {
    t.weight[i] = random_half(seed_ + 1000003 * tensors_.size() + 31 * i);
  }
  tensors_.push_back(std::move(t));
}

TensorSpec TrainerModel::spec(size_t tensor) const {
  return {.name = "t" + std::to_string(tensor),
          .elements = tensors_[tensor].size,
          .group = tensors_[tensor].group};
}

Layout TrainerModel::layout() const {
  Layout layout;
  for (size_t t = 0; t < tensors_.size(); ++t) layout.add(spec(t));
  return layout;
}

void TrainerModel::bind(Step& step) {
  std::vector<void*> weight, master, exp_avg, exp_avg_sq;
  for (Tensor& t : tensors_) {
    weight.push_back(t.weight.data());
    master.push_back(t.master.data());
    exp_avg.push_back(t.exp_avg.data());
    exp_avg_sq.push_back(t.exp_avg_sq.data());
  }
  step.bind_raw("weight", weight);
  step.bind_raw("master", master);
  step.bind_raw("exp_avg", exp_avg);
  step.bind_raw("exp_avg_sq", exp_avg_sq);
}

std::vector<void*> TrainerModel::gradients(int index, int missing, int bad) {
  std::vector<void*> out;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (static_cast<int>(t) == missing) {
      out.push_back(nullptr);
      continue;
    }
    std::vector<uint16_t>& g = gradients_.emplace_back(tensors_[t].size);
    uint64_t key = seed_ + 7919 * t + 104729 * static_cast<uint64_t>(index + 1);
    for (size_t i = 0; i < g.size(); ++i) g[i] = random_half(mix(key) + i);
    if (static_cast<int>(t) == bad) g[g.size() / 2] = 0xFC00;
    out.push_back(g.data());
  }
  while (gradients_.size() > 4 * tensors_.size()) gradients_.pop_front();
  return out;
}

void TrainerModel::restore(std::vector<Tensor> tensors) {
  for (size_t t = 0; t < tensors_.size(); ++t) {
    std::copy(tensors[t].weight.begin(), tensors[t].weight.end(), tensors_[t].weight.begin());
    std::copy(tensors[t].master.begin(), tensors[t].master.end(), tensors_[t].master.begin());
    std::copy(tensors[t].exp_avg.begin(), tensors[t].exp_avg.end(), tensors_[t].exp_avg.begin());
    std::copy(tensors[t].exp_avg_sq.begin(), tensors[t].exp_avg_sq.end(),
              tensors_[t].exp_avg_sq.begin());
  }
}

std::string TrainerModel::digest(const Step& step) const {
  Digest d;
  for (const Tensor& t : tensors_) {
    d.add("buffer", "weight", DType::f16, t.weight.data(), t.size);
    d.add("buffer", "master", DType::f32, t.master.data(), t.size);
    d.add("buffer", "exp_avg", DType::f32, t.exp_avg.data(), t.size);
    d.add("buffer", "exp_avg_sq", DType::f32, t.exp_avg_sq.data(), t.size);
  }
  d.add_states(step);
  return d.hex();
}

std::vector<int64_t> counts(const Step& step, std::string_view state) {
  std::vector<int64_t> out;
  for (Bits b : step.read_state(state)) out.push_back(b.i64());
  return out;
}

}  // namespace stepfuse::testing
