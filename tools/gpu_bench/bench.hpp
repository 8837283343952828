// Times the forms of a step on a CUDA device in turns with a copy. Knows the public API and the driver.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

namespace stepfuse::gpu_bench {

struct Case {
  std::string name;
  Layout layout;
  DType grad = DType::f32;  // below f32: with master weights
  size_t misalign = 0;      // of the gradients, in elements
};

struct Series {
  // fused, fused_moved, split, unfused, observe, after_observe, fused_graph; "fused unroll=2,…"
  std::string name;
  std::vector<double>
      device_ms;                // of a step, each entry the mean of a turn; after_observe: of each
  std::vector<double> host_us;  // that run(), or observe(), took
  double bytes_per_param = 0;   // of what was timed
  std::vector<double> phase_bytes;
  int launches = 0;
  double first_step_ms = 0;  // prepare() and the first run, until it is done
  bool from_disk_cache = false;
};

struct Result {
  Case what;
  uint64_t params = 0;
  std::vector<Series> series;
  std::vector<std::string> left_out;  // of the sweep, with the reason
  std::vector<double> copy_gbs;       // device to device, read and written bytes
};

struct Settings {
  int ordinal = 0;
  int rounds = 20;  // turns that count
  int steps_per_turn = 5;
  size_t copy_bytes = size_t{1} << 30;
  std::vector<std::string> sweep;  // options of the emitter that fused steps are also timed with
};

// Throws Error{device} where there is no device or not enough memory on it.
Result run_case(const Case& c, const Settings& settings);

// Device bytes that the case takes.
uint64_t bytes_needed(const Case& c, const Settings& settings);

}  // namespace stepfuse::gpu_bench
