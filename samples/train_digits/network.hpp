// A small network with f16 weights, activations and gradients, and f32 accumulation: what a
// mixed-precision framework does on tensor cores. Knows the samples' matrix routines.
//
// Sigmoid units and a squared error averaged over batch and outputs, as such networks were when this
// data set was made. Every sigmoid shrinks the gradient that passes through it, so the gradients of
// the first layers are far below what f16 can hold: the case that loss scaling is for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "samples/train_digits/data.hpp"

namespace digits {

// A parameter tensor. The optimizer's state is elsewhere.
struct Parameter {
  std::string name;
  bool decay = false;              // true for weights, false for biases
  std::vector<uint16_t> weight;    // f16
  std::vector<uint16_t> gradient;  // f16, of the scaled loss; filled by backward()
};

class Network {
 public:
  // `widths` of the layers include input and output. Weights are drawn as torch.nn.Linear draws
  // them.
  Network(const std::vector<size_t>& widths, uint64_t seed);

  std::vector<Parameter>& parameters() { return parameters_; }
  size_t parameter_count() const;

  // Runs the samples `order[0 .. size)` and returns the mean squared error, unscaled.
  double forward(const Samples& samples, const size_t* order, size_t size);
  // Computes gradients of loss_scale * loss for the samples of the last forward().
  void backward(float loss_scale);
  // Among the gradients that are not zero in f32, the share that backward() rounded to zero.
  double underflow_share();

  // The share of samples whose largest output is their digit.
  double accuracy(const Samples& samples);

 private:
  struct Layer {
    size_t inputs = 0;
    size_t outputs = 0;
    std::vector<float> weight, weight_transposed, bias;  // f16 values, unpacked
    std::vector<float> weight_gradient, bias_gradient;
  };
  void unpack_weights();
  template <class Round>
  void propagate_back(float loss_scale, Round round);

  std::vector<Layer> layers_;
  std::vector<Parameter> parameters_;            // weight 0, bias 0, weight 1, …
  std::vector<std::vector<float>> activations_;  // [layer + 1][sample * width]
  std::vector<float> targets_;
  std::vector<float> delta_, delta_transposed_, delta_below_;
  size_t batch_ = 0;
};

}  // namespace digits
