// Runs the forms of one step in turns with the streams, each on its own arrays. Knows the public
// API.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/workload/layout_file.hpp"

namespace stepfuse::samples {

struct Times {
  double min = 0, median = 0, max = 0;  // seconds per step
};

struct BenchOptions {
  LayoutFile layout;
  int threads = 0;  // 0 means all
  int rounds = 9;   // counted turns; one more comes first
};

struct BenchResult {
  uint64_t params = 0;
  int threads = 0;
  Times fused, split, unfused, stream, triad;
  // Bytes that a step's arrays have to move: 32 per parameter fused, 48 unfused.
  uint64_t fused_bytes = 0, unfused_bytes = 0;
  uint64_t stream_bytes = 0, triad_bytes = 0;
  double max_abs_diff = 0;  // between the forms' final weights; 0 if bit-identical
};

using Progress = std::function<void(double done, std::string_view what)>;

// Runs AdamW with f32 parameters, dynamic loss scaling, the finite check and clipping by the global
// norm.
BenchResult run_bench(const BenchOptions& options, const Progress& progress);

}  // namespace stepfuse::samples
