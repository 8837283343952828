// The forms of one step, run in turns with the streams on arrays of their own. Knows the public API.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/workload/layout_file.hpp"

namespace stepfuse::samples {

struct Times {
  double min = 0, median = 0, max = 0;  // seconds of one step
};

struct BenchOptions {
  LayoutFile layout;
  int threads = 0;  // 0: all
  int rounds = 9;   // turns that count, after one that does not
};

struct BenchResult {
  uint64_t params = 0;
  int threads = 0;
  Times fused, split, unfused, stream, triad;
  // What a step has to move, by its arrays: 32 bytes a parameter fused, 48 unfused.
  uint64_t fused_bytes = 0, unfused_bytes = 0;
  uint64_t stream_bytes = 0, triad_bytes = 0;
  double max_abs_diff = 0;  // between the weights of the forms at the end: 0 to the bit
};

using Progress = std::function<void(double done, std::string_view what)>;

// AdamW with f32 parameters, dynamic loss scaling, the finite check and clipping by the global norm.
BenchResult run_bench(const BenchOptions& options, const Progress& progress);

}  // namespace stepfuse::samples
