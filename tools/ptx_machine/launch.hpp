// One running grid: its blocks, who runs next, who waits for what. Knows no opcode.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tools/ptx_machine/scheduler.hpp"
#include "tools/ptx_machine/sync_clocks.hpp"
#include "tools/ptx_machine/thread.hpp"

namespace ptx {

struct Dim3 {
  u32 x = 1, y = 1, z = 1;
  u64 count() const { return u64{x} * y * z; }
};

struct Checks {
  bool races = true;
  bool uninitialised = true;
};

struct LaunchOptions {
  u64 seed = 0;                    // each seed is another interleaving
  u64 step_limit = 4'000'000'000;  // thread-instructions of the whole launch
  Checks checks;
};

struct LaunchShape {
  Dim3 grid, block;
  u32 dynamic_shared_bytes = 0;
};

struct Counters {
  u64 instructions = 0;  // thread-instructions, predicated-off ones included
  u64 turns = 0;         // scheduler decisions
  u64 barriers = 0;      // completed block barriers
  u64 atomics = 0;
  u64 global_bytes_read = 0;
  u64 global_bytes_written = 0;
};

class Launch {
 public:
  Launch(Memory& memory, RaceDetector& races, const Kernel& kernel, const LaunchShape& shape,
         std::span<const std::byte> params, const LaunchOptions& options);

  Counters run();

  // For the semantic functions.
  void exit_thread(Thread& thread);
  void arrive(Thread& thread, const Instruction& i, u32 barrier, u32 expected);
  void arrive_in_warp(Thread& thread, const Instruction& i, u32 members, WarpFunction complete);
  void wake(Thread& thread);

  Memory& memory;
  RaceDetector& races;
  SyncClocks sync;
  const Kernel& kernel;
  std::vector<std::byte> params;
  Checks checks;
  Counters counters;
  u64 stores = 0;  // tells pollers' progress

 private:
  void make_block(u32 index);
  void set_specials(Thread& thread, u32 block) const;
  void run_turn(Warp& warp, u32 slice, bool poll);
  u32 run_slice(Thread& thread, u32 limit);
  void check_barrier(Block& block, u32 barrier);
  void complete_barrier(Block& block, Barrier& barrier);
  void check_warp(Warp& warp);
  bool check_group(Thread& thread);
  void saw_times();
  [[noreturn]] void hang(const char* why) const;

  LaunchShape shape_;
  u64 step_limit_;
  u32 start_time_;
  ClockRef start_clock_;
  std::vector<std::unique_ptr<Block>> blocks_;
  u64 live_ = 0;
  Scheduler scheduler_;
  u64 stalled_polls_ = 0;
  u64 stores_at_last_poll_ = 0;
};

}  // namespace ptx
