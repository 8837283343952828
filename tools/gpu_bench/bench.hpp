// Times the forms of a step on a CUDA device in turns with a copy. Knows the public API and the
// driver.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

namespace stepfuse::gpu_bench {

struct Case {
  std::string name;
  Layout layout;
  DType grad = DType::f32;  // if below f32, the step has master weights
  size_t misalign = 0;      // of gradients, in elements
};

struct Series {
  // fused, fused_moved, split, unfused, observe, after_observe, fused_graph; "fused unroll=2,…"
  std::string name;
  std::vector<double>
      device_ms;  // per step, one entry per turn, its mean; for after_observe one entry per step
  std::vector<double> host_us;  // host time of run() or observe()
  double bytes_per_param = 0;   // of what was timed
  std::vector<double> phase_bytes;
  int launches = 0;
  double first_step_ms = 0;  // prepare() and the first run, until the device has finished
  bool from_disk_cache = false;
};

struct Result {
  Case what;
  uint64_t params = 0;
  std::vector<Series> series;
  std::vector<std::string> left_out;  // cases left out of the sweep, with the reason
  std::vector<double> copy_gbs;       // device to device, bytes read plus written
};

struct Settings {
  int ordinal = 0;
  int rounds = 20;  // counted turns
  int steps_per_turn = 5;
  size_t copy_bytes = size_t{1} << 30;
  std::vector<std::string> sweep;  // emitter options with which fused steps are timed as well
};

// Throws Error{device} if there is no device, or too little memory on it.
Result run_case(const Case& c, const Settings& settings);

// Device bytes that the case needs.
uint64_t bytes_needed(const Case& c, const Settings& settings);

}  // namespace stepfuse::gpu_bench
