// Trains the network with stepfuse between backward() and the next forward(). This is the file to
// copy from. Knows stepfuse and the network.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

#include "samples/train_digits/data.hpp"

namespace digits {

inline constexpr double kMaxNorm = 0.05;  // the clipping threshold for gradients

enum class Scaling { off, fixed, dynamic };
std::string_view name(Scaling scaling);

struct TrainOptions {
  Scaling scaling = Scaling::dynamic;
  stepfuse::Form form = stepfuse::Form::fused;
  stepfuse::Device device = stepfuse::Device::cpu();
  int epochs = 100;
  uint64_t seed = 1;
  std::function<void(int step, int steps)> on_step;  // for a progress line
  // receives the report of each finished step
  std::function<void(const stepfuse::StepStats&)> on_stats;
};

// The results of each step.
struct StepRecord {
  double loss = 0;
  double loss_scale = 1;
  double lr = 0;
  double grad_norm = 0;  // of the unscaled gradients; not finite if they are not
  bool skipped = false;
  bool clipped = false;
};

// A measurement made now and then, after `step` steps.
struct Sample {
  int step = 0;
  double value = 0;
};

struct TrainResult {
  std::vector<StepRecord> steps;
  std::vector<Sample> test_accuracy;
  std::vector<Sample> underflow;  // share of the gradients that became zero in f16
  double train_accuracy = 0;
  uint64_t digest = 0;    // of every weight, master weight and moment
  double network_us = 0;  // forward and backward, median per step
  double step_us = 0;     // stepfuse's run(), median per step
  double compile_ms = 0;
  bool compiled = false;  // false: the kernel was in the cache
  size_t parameters = 0;
  size_t step_bytes = 0;  // device memory owned by the step
};

TrainResult train(const Digits& digits, const TrainOptions& options);

}  // namespace digits
