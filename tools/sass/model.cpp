// Predicts times by rounds: every warp of a multiprocessor makes one turn, and the slowest resource
// decides how long that takes.
#include "tools/sass/model.hpp"

#include <algorithm>
#include <cmath>

#include "compiler/abi.hpp"
#include "runtime/cuda/split.hpp"

namespace stepfuse::sass {
namespace {

constexpr int kWarp = 32;
constexpr int kSchedulers = 4;        // each issues one instruction per clock
constexpr int kSpecialPerClock = 16;  // threads, per multiprocessor
constexpr int kRegisters = 65'536;
constexpr int kSharedBytes = 100 * 1024;  // the smallest of all archs

}  // namespace

std::span<const Gpu> gpus() {
  static constexpr Gpu kGpus[] = {
      {"A100", 80, 108, 1.41, 1.79, 600, 32, "A100 80 GB SXM", 2039, "NVIDIA A100 datasheet"},
      {"H100", 90, 132, 1.83, 3.0, 700, 64, "H100 SXM", 3350, "NVIDIA H100 datasheet"},
      {"H200", 90, 132, 1.83, 4.3, 700, 64, "H200 SXM", 4800, "NVIDIA H200 datasheet"},
      {"B200", 100, 148, 1.92, 7.1, 800, 64, "B200", 8000,
       "NVIDIA DGX B200 datasheet, 64 TB/s of 8"},
      {"RTX 5090", 120, 170, 2.41, 1.57, 700, 2, "RTX 5090", 1792,
       "NVIDIA RTX Blackwell architecture paper"},
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

namespace {

struct Round {
  double clocks = 0;
  std::string_view limiter;
};

// A round with `warps` warps on every multiprocessor.
Round round_of(const Budget& b, double warps, const Gpu& gpu) {
  double bytes = static_cast<double>(b.loaded + b.stored) * kWarp * warps;
  double bytes_per_clock = gpu.copy_tb_s * 1e3 / gpu.clock_ghz / gpu.multiprocessors;
  // Every wait between loads costs the latency once more.
  double waits =
      b.loads_at_once == 0 ? 0 : std::ceil(static_cast<double>(b.loads) / b.loads_at_once);
  const Round limits[] = {
      {bytes / bytes_per_clock, "memory"},
      {b.exposed_cycles + waits * gpu.latency_ns * gpu.clock_ghz, "latency"},
      {warps * b.instructions / kSchedulers, "issue"},
      {warps * kWarp * b.special / kSpecialPerClock, "special"},
      {warps * kWarp * b.doubles / gpu.doubles_per_clock, "doubles"},
  };
  return *std::max_element(std::begin(limits), std::end(limits),
                           [](const Round& x, const Round& y) { return x.clocks < y.clocks; });
}

uint64_t quotient_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

}  // namespace

Prediction predict(const Budget& b, const Occupancy& o, const Gpu& gpu, uint64_t elements,
                   bool splits) {
  if (b.elements == 0 || elements == 0) return {};
  uint64_t blocks = static_cast<uint64_t>(o.blocks) * static_cast<uint64_t>(gpu.multiprocessors);
  auto chunks = static_cast<uint32_t>(quotient_up(elements, abi::kPieceElements));
  uint32_t split = splits ? cuda::best_split(chunks, elements, static_cast<uint32_t>(blocks)) : 0;
  uint64_t unit = std::min<uint64_t>(elements, abi::kPieceElements >> split);
  uint64_t units = quotient_up(elements, unit);
  uint64_t turns =
      quotient_up(unit, static_cast<uint64_t>(b.elements) * abi::kBlockThreads);  // per thread
  uint64_t whole = units / blocks;
  uint64_t last = units % blocks;  // blocks with one unit more than the rest
  auto on_each = static_cast<double>(quotient_up(last, static_cast<uint64_t>(gpu.multiprocessors)));
  Round all = round_of(b, o.warps, gpu);
  Round rest = round_of(b, on_each * o.warps / o.blocks, gpu);
  double clocks = static_cast<double>(turns) *
                  (static_cast<double>(whole) * all.clocks + (last > 0 ? rest.clocks : 0));
  return {clocks / gpu.clock_ghz * 1e-6, whole == 0 ? rest.limiter : all.limiter};
}

double kib_in_flight(const Budget& b, const Occupancy& o) {
  return static_cast<double>(b.bytes_at_once) * kWarp * o.warps / 1024;
}

}  // namespace stepfuse::sass
