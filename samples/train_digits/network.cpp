// Forward and backward pass, each result rounded to f16. Knows the matrix routines and f16.
#include "samples/train_digits/network.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "samples/half.hpp"
#include "samples/train_digits/matrix.hpp"

namespace digits {

Network::Network(const std::vector<size_t>& widths, uint64_t seed) {
  Random random(seed);
  for (size_t l = 0; l + 1 < widths.size(); ++l) {
    Layer layer;
    layer.inputs = widths[l];
    layer.outputs = widths[l + 1];
    layer.weight.resize(layer.inputs * layer.outputs);
    layer.weight_transposed.resize(layer.weight.size());
    layer.weight_gradient.resize(layer.weight.size());
    layer.bias.resize(layer.outputs);
    layer.bias_gradient.resize(layer.outputs);
    double bound = 1 / std::sqrt(static_cast<double>(layer.inputs));
    for (bool is_weight : {true, false}) {
      Parameter p;
      p.name = "layer" + std::to_string(l) + (is_weight ? ".weight" : ".bias");
      p.decay = is_weight;
      p.weight.resize(is_weight ? layer.weight.size() : layer.bias.size());
      p.gradient.resize(p.weight.size());
      for (uint16_t& w : p.weight) {
        w = half::from_float(static_cast<float>(bound * (2 * random.uniform() - 1)));
      }
      parameters_.push_back(std::move(p));
    }
    layers_.push_back(std::move(layer));
  }
  activations_.resize(widths.size());
}

size_t Network::parameter_count() const {
  return std::accumulate(parameters_.begin(), parameters_.end(), size_t{0},
                         [](size_t n, const Parameter& p) { return n + p.weight.size(); });
}

void Network::unpack_weights() {
  for (size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    const std::vector<uint16_t>& weight = parameters_[2 * l].weight;
    const std::vector<uint16_t>& bias = parameters_[2 * l + 1].weight;
    std::transform(weight.begin(), weight.end(), layer.weight.begin(), half::to_float);
    std::transform(bias.begin(), bias.end(), layer.bias.begin(), half::to_float);
    transpose(layer.weight.data(), layer.weight_transposed.data(), layer.outputs, layer.inputs);
  }
}

double Network::forward(const Samples& samples, const size_t* order, size_t size) {
  unpack_weights();
  batch_ = size;
  activations_[0].resize(size * kPixels);
  targets_.assign(size * kClasses, 0.0F);
  for (size_t s = 0; s < size; ++s) {
    std::copy_n(&samples.pixels[order[s] * kPixels], kPixels, &activations_[0][s * kPixels]);
    targets_[s * kClasses + static_cast<size_t>(samples.labels[order[s]])] = 1;
  }
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    std::vector<float>& out = activations_[l + 1];
    out.resize(size * layer.outputs);
    multiply(activations_[l].data(), layer.weight_transposed.data(), out.data(), size, layer.inputs,
             layer.outputs);
    for (size_t s = 0; s < size; ++s) {
      float* row = &out[s * layer.outputs];
      for (size_t j = 0; j < layer.outputs; ++j) {
        float sum = half::round(row[j] + layer.bias[j]);
        row[j] = half::round(1.0F / (1.0F + std::exp(-sum)));
      }
    }
  }
  double loss = 0;
  const std::vector<float>& out = activations_.back();
  for (size_t i = 0; i < out.size(); ++i) {
    loss += static_cast<double>(out[i] - targets_[i]) * static_cast<double>(out[i] - targets_[i]);
  }
  return loss / static_cast<double>(out.size());
}

template <class Round>
void Network::propagate_back(float loss_scale, Round round) {
  const std::vector<float>& out = activations_.back();
  float factor = loss_scale * 2.0F / static_cast<float>(out.size());
  delta_below_.resize(out.size());
  for (size_t i = 0; i < out.size(); ++i) delta_below_[i] = round(factor * (out[i] - targets_[i]));

  for (size_t l = layers_.size(); l-- > 0;) {
    Layer& layer = layers_[l];
    const std::vector<float>& y = activations_[l + 1];
    delta_.resize(y.size());
    for (size_t i = 0; i < y.size(); ++i) {
      delta_[i] = round(delta_below_[i] * (y[i] * (1.0F - y[i])));  // through the sigmoid
    }
    delta_transposed_.resize(delta_.size());
    transpose(delta_.data(), delta_transposed_.data(), batch_, layer.outputs);
    multiply(delta_transposed_.data(), activations_[l].data(), layer.weight_gradient.data(),
             layer.outputs, batch_, layer.inputs);
    for (float& g : layer.weight_gradient) g = round(g);
    for (size_t j = 0; j < layer.outputs; ++j) {
      const float* row = &delta_transposed_[j * batch_];
      layer.bias_gradient[j] = round(std::accumulate(row, row + batch_, 0.0F));
    }
    if (l == 0) break;
    delta_below_.resize(batch_ * layer.inputs);
    multiply(delta_.data(), layer.weight.data(), delta_below_.data(), batch_, layer.outputs,
             layer.inputs);
    for (float& d : delta_below_) d = round(d);
  }
}

void Network::backward(float loss_scale) {
  propagate_back(loss_scale, [](float x) { return half::round(x); });
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    std::transform(layer.weight_gradient.begin(), layer.weight_gradient.end(),
                   parameters_[2 * l].gradient.begin(), half::from_float);
    std::transform(layer.bias_gradient.begin(), layer.bias_gradient.end(),
                   parameters_[2 * l + 1].gradient.begin(), half::from_float);
  }
}

double Network::underflow_share() {
  propagate_back(1.0F, [](float x) { return x; });
  size_t nonzero = 0;
  size_t lost = 0;
  auto compare = [&](const std::vector<float>& exact, const std::vector<uint16_t>& stored) {
    for (size_t i = 0; i < exact.size(); ++i) {
      if (exact[i] == 0) continue;
      ++nonzero;
      if ((stored[i] & 0x7FFFU) == 0) ++lost;
    }
  };
  for (size_t l = 0; l < layers_.size(); ++l) {
    compare(layers_[l].weight_gradient, parameters_[2 * l].gradient);
    compare(layers_[l].bias_gradient, parameters_[2 * l + 1].gradient);
  }
  return nonzero == 0 ? 0 : static_cast<double>(lost) / static_cast<double>(nonzero);
}

double Network::accuracy(const Samples& samples) {
  std::vector<size_t> order(samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  forward(samples, order.data(), order.size());
  size_t right = 0;
  for (size_t s = 0; s < samples.size(); ++s) {
    const float* row = &activations_.back()[s * kClasses];
    if (std::max_element(row, row + kClasses) - row == samples.labels[s]) ++right;
  }
  return static_cast<double>(right) / static_cast<double>(samples.size());
}

}  // namespace digits
