// Measures the forms in turns. Knows the public API and the streams.
#include "samples/fused_vs_unfused/bench.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include <stepfuse/stepfuse.hpp>

#include "tools/workload/random.hpp"
#include "tools/workload/stream.hpp"

namespace stepfuse::samples {
namespace {

// Norm pass: the gradient. Update: gradient, weight and both moments in, the last three out.
constexpr uint64_t kFusedBytes = 4 + 28;
// Unscale: gradient in, unscaled gradient out. Norm: in. Clip: in and out. Then the update.
constexpr uint64_t kUnfusedBytes = 8 + 4 + 8 + 28;
constexpr uint64_t kStreamBytes = 28;
constexpr uint64_t kTriadBytes = 12;

// Each turn repeats short steps, so that small layouts find their arrays in the caches as they do
// in training.
constexpr uint64_t kElementsPerTurn = 4U << 20;
constexpr uint64_t kMostRepeats = 1000;
constexpr size_t kArrayAlignment = 16;  // elements, 64 bytes

double seconds_of(const std::function<void()>& f) {
  auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Tensors of a layout one behind the other in one array, where the file wants them misaligned too.
class Tensors {
 public:
  explicit Tensors(const LayoutFile& layout) : array_(span(layout)) {
    size_t at = 0;
    for (const TensorEntry& t : layout.tensors) {
      pointers_.push_back(t.size == 0 ? nullptr : array_.data() + at + t.misalign);
      at += room(t);
    }
  }
  const std::vector<void*>& pointers() const { return pointers_; }
  float* data() const { return array_.data(); }
  static size_t span(const LayoutFile& layout) {
    size_t n = 0;
    for (const TensorEntry& t : layout.tensors) n += room(t);
    return n;
  }

 private:
  static size_t room(const TensorEntry& t) {
    return (t.size + t.misalign + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
  }
  HugeArray array_;
  std::vector<void*> pointers_;
};

// A step in one form, with its own parameters and moments.
class Contestant {
 public:
  Contestant(const BenchOptions& options, Form form)
      : weight_(options.layout),
        exp_avg_(options.layout),
        exp_avg_sq_(options.layout),
        step_(make_recipe("adamw",
                          {.grad = DType::f32, .loss_scale = LossScale::dynamic, .clip = Clip::l2}),
              make_layout(options.layout), Device::cpu(options.threads),
              {.form = form, .scaler = &scaler_}),
        args_(step_.make_args()) {
    step_.prepare();
    step_.bind_raw("weight", weight_.pointers());
    step_.bind_raw("exp_avg", exp_avg_.pointers());
    step_.bind_raw("exp_avg_sq", exp_avg_sq_.pointers());
    step_.init_state();
    RandomStream random(1, "weight", 0);
    for (size_t i = 0; i < Tensors::span(options.layout); ++i) {
      weight_.data()[i] = normal_value(random.bits(i)) * 0.02F;
    }
    args_.set("lr", 1e-3);
    args_.set("max_norm", 1.0);
  }

  void run(const Tensors& grad) { step_.run(grad.pointers(), args_); }
  const float* weights() const { return weight_.data(); }

  std::vector<double> seconds;

 private:
  static Layout make_layout(const LayoutFile& file) {
    Layout layout;
    for (const TensorEntry& t : file.tensors) {
      layout.add({.name = t.name, .elements = t.size, .group = t.group});
    }
    return layout;
  }

  Tensors weight_, exp_avg_, exp_avg_sq_;
  LossScaler scaler_;
  Step step_;
  Args args_;
};

Times summary(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {seconds.front(), seconds[seconds.size() / 2], seconds.back()};
}

}  // namespace

BenchResult run_bench(const BenchOptions& options, const Progress& progress) {
  BenchResult result;
  for (const TensorEntry& t : options.layout.tensors) result.params += t.size;
  size_t span = Tensors::span(options.layout);
  Streams streams(options.threads);
  result.threads = streams.threads();

  progress(0, "arrays");
  // Gradients as they come from a backward pass of the scaled loss.
  Tensors grad(options.layout);
  RandomStream random(1, "grad", 0);
  for (size_t i = 0; i < span; ++i) {
    grad.data()[i] = normal_value(random.bits(i)) * (65536.0F * 1e-3F);
  }
  Tensors a(options.layout);
  Tensors b(options.layout);
  Tensors c(options.layout);
  std::vector<std::unique_ptr<Contestant>> forms;
  for (Form form : {Form::fused, Form::split, Form::unfused}) {
    progress(0, "compiling");
    forms.push_back(std::make_unique<Contestant>(options, form));
  }

  std::vector<double> stream;
  std::vector<double> triad;
  uint64_t repeats = std::clamp<uint64_t>(kElementsPerTurn / std::max<uint64_t>(1, result.params),
                                          1, kMostRepeats);
  auto turn = [&](bool counts, std::vector<double>& seconds, const std::function<void()>& f) {
    f();  // the caches hold another's arrays
    for (uint64_t i = 0; i < repeats; ++i) {
      double s = seconds_of(f);
      if (counts) seconds.push_back(s);
    }
  };
  for (int round = 0; round <= options.rounds; ++round) {
    progress(static_cast<double>(round) / (options.rounds + 1), "measuring");
    bool counts = round > 0;
    turn(counts, stream, [&] { streams.update(grad.data(), a.data(), b.data(), c.data(), span); });
    turn(counts, triad, [&] { streams.triad(a.data(), b.data(), c.data(), span); });
    for (auto& form : forms) {
      turn(counts, form->seconds, [&] { form->run(grad); });
    }
  }
  progress(1, "done");

  for (size_t i = 0; i < span; ++i) {
    for (size_t k = 1; k < forms.size(); ++k) {
      double difference = std::fabs(double{forms[0]->weights()[i]} - forms[k]->weights()[i]);
      // A NaN on one side only is a difference too.
      if (!(difference <= result.max_abs_diff)) result.max_abs_diff = difference;
    }
  }
  result.fused = summary(forms[0]->seconds);
  result.split = summary(forms[1]->seconds);
  result.unfused = summary(forms[2]->seconds);
  result.stream = summary(stream);
  result.triad = summary(triad);
  result.fused_bytes = kFusedBytes * result.params;
  result.unfused_bytes = kUnfusedBytes * result.params;
  result.stream_bytes = kStreamBytes * span;
  result.triad_bytes = kTriadBytes * span;
  return result;
}

}  // namespace stepfuse::samples
