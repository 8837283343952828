// The training loop around a stepfuse step. Knows stepfuse and the network.
#include "samples/train_digits/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>

#include "samples/train_digits/network.hpp"

namespace digits {
namespace sf = stepfuse;
namespace {

constexpr size_t kBatch = 64;
constexpr int kUnderflowEvery = 20;  // steps between two measurements of it
constexpr double kPeakLr = 0.01;
constexpr double kWeightDecay = 0.01;
constexpr float kFixedScale = 1024;
enum Group : int { kDecay, kNoDecay };

using Clock = std::chrono::steady_clock;
double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}
double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Warm-up, then half a cosine down to a fiftieth.
double learning_rate(int step, int steps) {
  double warm_up = std::min(1.0, (step + 1) / (0.05 * steps));
  double cosine = 0.5 * (1 + std::cos(std::numbers::pi * step / steps));
  return kPeakLr * warm_up * (0.02 + 0.98 * cosine);
}

sf::Program make_program(Scaling scaling) {
  sf::RecipeOptions options;
  options.grad = sf::DType::f16;
  options.master = true;  // f32 masters; the network computes with their f16 copy
  options.check = true;   // skip steps with inf or NaN in the gradients
  options.clip = sf::Clip::l2;
  if (scaling == Scaling::fixed) options.loss_scale = sf::LossScale::fixed;
  if (scaling == Scaling::dynamic) options.loss_scale = sf::LossScale::dynamic;
  return sf::make_recipe("adamw", options);
}

// The optimizer's side of the parameters: arrays that the caller owns, and the step over them.
class Optimizer {
 public:
  Optimizer(Network& network, const TrainOptions& options)
      : scaler_({.init_scale = options.scaling == Scaling::fixed ? kFixedScale : 65536.0F,
                 .growth_interval = 100}),  // of some 1,000 steps; long trainings take 2,000
        scaled_(options.scaling != Scaling::off),
        step_(make_program(options.scaling), make_layout(network), options.device,
              {.form = options.form, .scaler = scaled_ ? &scaler_ : nullptr}) {
    step_.prepare();
    std::vector<sf::Array> weights, masters, exp_avgs, exp_avg_sqs, gradients;
    arrays_.resize(network.parameters().size());
    for (size_t i = 0; i < arrays_.size(); ++i) {
      Parameter& p = network.parameters()[i];
      for (auto* a : {&arrays_[i].master, &arrays_[i].exp_avg, &arrays_[i].exp_avg_sq}) {
        a->resize(p.weight.size());
      }
      weights.push_back(p.weight);
      masters.push_back(arrays_[i].master);
      exp_avgs.push_back(arrays_[i].exp_avg);
      exp_avg_sqs.push_back(arrays_[i].exp_avg_sq);
      gradients.push_back(p.gradient);
    }
    step_.bind("weight", weights);
    step_.bind("master", masters);
    step_.bind("exp_avg", exp_avgs);
    step_.bind("exp_avg_sq", exp_avg_sqs);
    gradients_ = step_.gradients(gradients);
    step_.init_state();  // masters from the weights, moments to zero
    args_.emplace(step_.make_args());
    args_->set("weight_decay", sf::Group{kDecay}, kWeightDecay);
    args_->set("weight_decay", sf::Group{kNoDecay}, 0);
    args_->set("max_norm", kMaxNorm);
    lr_ = step_.arg("lr");
  }

  // On a GPU this pointer goes to the kernel that scales the loss; here it is read.
  float loss_scale() const { return scaled_ ? *scaler_.device_scale() : 1.0F; }

  void run(double lr) {
    args_->set(lr_, lr);
    step_.run(gradients_, *args_);
  }

  const sf::Step& step() const { return step_; }

  uint64_t digest(Network& network) const;

 private:
  struct Arrays {
    std::vector<float> master, exp_avg, exp_avg_sq;
  };
  static sf::Layout make_layout(Network& network) {
    sf::Layout layout;
    for (const Parameter& p : network.parameters()) {
      layout.add(
          {.name = p.name, .elements = p.weight.size(), .group = p.decay ? kDecay : kNoDecay});
    }
    return layout;
  }

  sf::LossScaler scaler_;
  bool scaled_;
  sf::Step step_;
  std::vector<Arrays> arrays_;
  std::vector<void*> gradients_;
  std::optional<sf::Args> args_;
  sf::ArgId lr_;
};

// FNV-1a over bytes.
template <class T>
void hash(uint64_t& state, const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  for (size_t i = 0; i < values.size() * sizeof(T); ++i) {
    state = (state ^ bytes[i]) * 0x100000001B3U;
  }
}

uint64_t Optimizer::digest(Network& network) const {
  uint64_t state = 0xCBF29CE484222325U;
  for (const Parameter& p : network.parameters()) hash(state, p.weight);
  for (const Arrays& a : arrays_) {
    hash(state, a.master);
    hash(state, a.exp_avg);
    hash(state, a.exp_avg_sq);
  }
  return state;
}

StepRecord record_of(const sf::StepStats& stats, double loss, double lr) {
  StepRecord r;
  r.loss = loss;
  r.lr = lr;
  r.loss_scale = stats.find("loss_scale").value_or(1);
  r.grad_norm = stats.at("grad_norm");
  r.skipped = stats.at("skipped") != 0;
  r.clipped = !r.skipped && stats.at("clip_coef") < 1;
  return r;
}

}  // namespace

std::string_view name(Scaling scaling) {
  switch (scaling) {
    case Scaling::off:
      return "off";
    case Scaling::fixed:
      return "fixed";
    case Scaling::dynamic:
      return "dynamic";
  }
  return "";
}

TrainResult train(const Digits& digits, const TrainOptions& options) {
  Network network({kPixels, 64, 64, 64, 64, kClasses}, options.seed);
  Optimizer optimizer(network, options);
  Random random(options.seed + 1);

  TrainResult result;
  result.parameters = network.parameter_count();
  result.step_bytes = optimizer.step().workspace_bytes();
  const sf::CompileReport& report = optimizer.step().compile_report();
  result.compile_ms = report.total_ms();
  result.compiled = !report.from_memory_cache && !report.from_disk_cache;

  size_t batches = digits.train.size() / kBatch;
  int steps = options.epochs * static_cast<int>(batches);
  int done = 0;
  std::vector<double> network_us, step_us;
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    std::vector<size_t> order = random.permutation(digits.train.size());
    for (size_t b = 0; b < batches; ++b) {
      Clock::time_point start = Clock::now();
      double loss = network.forward(digits.train, &order[b * kBatch], kBatch);
      network.backward(optimizer.loss_scale());
      network_us.push_back(microseconds_since(start));

      double lr = learning_rate(done, steps);
      start = Clock::now();
      optimizer.run(lr);
      step_us.push_back(microseconds_since(start));

      sf::StepStats stats = optimizer.step().latest().value();
      result.steps.push_back(record_of(stats, loss, lr));
      if (options.on_stats) options.on_stats(stats);
      if (done % kUnderflowEvery == 0) {
        result.underflow.push_back({done, network.underflow_share()});
      }
      ++done;
      if (options.on_step) options.on_step(done, steps);
    }
    result.test_accuracy.push_back({done, network.accuracy(digits.test)});
  }
  result.network_us = median(network_us);
  result.step_us = median(step_us);
  result.train_accuracy = network.accuracy(digits.train);
  result.digest = optimizer.digest(network);
  return result;
}

}  // namespace digits
