// A round: every warp of a multiprocessor makes one turn; it lasts as long as its slowest resource.
#include "tools/sass/model.hpp"

#include <algorithm>
#include <cmath>

namespace stepfuse::sass {
namespace {

constexpr int kWarp = 32;
constexpr int kSchedulers = 4;        // each issues an instruction a clock
constexpr int kSpecialPerClock = 16;  // threads, of a multiprocessor
constexpr int kRegisters = 65'536;
constexpr int kSharedBytes = 100 * 1024;  // the least of the archs'

}  // namespace

std::span<const Gpu> gpus() {
  static constexpr Gpu kGpus[] = {
      {"A100", 80, 108, 1.41, 1.79, 600, 32},     {"H100", 90, 132, 1.83, 3.0, 700, 64},
      {"H200", 90, 132, 1.83, 4.3, 700, 64},      {"B200", 100, 148, 1.92, 7.1, 800, 64},
      {"RTX 5090", 120, 170, 2.41, 1.57, 700, 2},
  };
  return kGpus;
}

Occupancy occupancy(int registers, int shared_bytes, int block_threads, int arch) {
  int rounded = (registers + 7) / 8 * 8;
  int by_registers = kRegisters / std::max(1, rounded * block_threads);
  int threads = arch / 10 == 12 || arch == 86 || arch == 89 ? 1536 : arch == 75 ? 1024 : 2048;
  int by_shared = shared_bytes > 0 ? kSharedBytes / (shared_bytes + 1024) : by_registers;
  Occupancy o;
  o.blocks = std::max(1, std::min({by_registers, threads / block_threads, by_shared}));
  o.warps = o.blocks * block_threads / kWarp;
  return o;
}

Prediction predict(const Budget& b, const Occupancy& o, const Gpu& gpu, uint64_t elements) {
  if (b.elements == 0) return {};
  double warps = o.warps;
  double bytes = static_cast<double>(b.loaded + b.stored) * kWarp * warps;
  double bytes_per_clock = gpu.copy_tb_s * 1e3 / gpu.clock_ghz / gpu.multiprocessors;
  // Every wait that splits the loads costs the latency once more.
  double waits =
      b.loads_at_once == 0 ? 0 : std::ceil(static_cast<double>(b.loads) / b.loads_at_once);
  struct {
    double clocks;
    std::string_view name;
  } const limits[] = {
      {bytes / bytes_per_clock, "memory"},
      {b.exposed_cycles + waits * gpu.latency_ns * gpu.clock_ghz, "latency"},
      {warps * b.instructions / kSchedulers, "issue"},
      {warps * kWarp * b.special / kSpecialPerClock, "special"},
      {warps * kWarp * b.doubles / gpu.doubles_per_clock, "doubles"},
  };
  auto slowest = std::max_element(std::begin(limits), std::end(limits),
                                  [](const auto& x, const auto& y) { return x.clocks < y.clocks; });
  double per_round = static_cast<double>(b.elements) * kWarp * warps * gpu.multiprocessors;
  double rounds = std::ceil(static_cast<double>(elements) / per_round);
  return {rounds * slowest->clocks / gpu.clock_ghz * 1e-6, slowest->name};
}

double kib_in_flight(const Budget& b, const Occupancy& o) {
  return static_cast<double>(b.bytes_at_once) * kWarp * o.warps / 1024;
}

}  // namespace stepfuse::sass
