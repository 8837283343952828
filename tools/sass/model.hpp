// Predicts a streaming loop's time on a GPU from its budget: the slowest of issue, special units,
// one warp's latency and memory. Knows budgets. Nothing here has been measured on these kernels.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tools/sass/budget.hpp"

namespace stepfuse::sass {

struct Gpu {
  std::string_view name;
  int arch;  // the arch whose code it runs
  int multiprocessors;
  double clock_ghz;       // boost
  double copy_tb_s;       // bandwidth that copies reach, reads plus writes
  double latency_ns;      // of a load from memory
  int doubles_per_clock;  // f64 operations per multiprocessor
  std::string_view product;
  double datasheet_gb_s;  // memory bandwidth in its maker's datasheet
  std::string_view datasheet;
};

// Multiprocessors and f64 rates as NVIDIA publishes them; copies of H100, B200 and RTX 5090 as measured in
// NVIDIA/cccl (pull requests 6921, 9481, 9881). Clocks, latencies and the other copies are assumed.
std::span<const Gpu> gpus();

struct Occupancy {
  int blocks = 0;  // per multiprocessor
  int warps = 0;
};
Occupancy occupancy(int registers, int shared_bytes, int block_threads, int arch);

struct Prediction {
  double ms = 0;
  std::string_view limiter;  // "memory", "latency", "issue", "special", "doubles"
};
// The elements are one tensor's, and blocks take its chunks one by one; the last chunks are not
// shared. `splits`: the phase reduces nothing, so that blocks take parts of chunks if that is
// faster.
Prediction predict(const Budget& b, const Occupancy& o, const Gpu& gpu, uint64_t elements,
                   bool splits);

// KiB in flight per multiprocessor: loads of all its warps.
double kib_in_flight(const Budget& b, const Occupancy& o);

}  // namespace stepfuse::sass
