// One running grid: its blocks, the next turn, and waiting threads. Knows no opcode.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tools/ptx_machine/caches.hpp"
#include "tools/ptx_machine/host_view.hpp"
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

// How the lanes of a warp at one instruction take a turn: together, which uses vectors; one by one;
// or mostly together, as the seed decides.
enum class Stepping : u8 { by_seed, together, one_by_one };

struct LaunchOptions {
  u64 seed = 0;                    // selects the interleaving
  u64 step_limit = 4'000'000'000;  // thread-instructions of the whole launch
  Checks checks;
  bool incoherent = false;     // blocks have caches of their own (caches.hpp)
  HostReader* host = nullptr;  // reads while the launch runs
  Stepping stepping = Stepping::by_seed;
};

struct LaunchShape {
  Dim3 grid, block;
  u32 dynamic_shared_bytes = 0;
  bool cooperative = true;  // all blocks run at once; else no block may wait for another
};

struct Counters {
  u64 instructions = 0;  // thread-instructions, predicated-off ones included
  u64 turns = 0;         // scheduler decisions
  u64 barriers = 0;      // completed block barriers
  u64 atomics = 0;
  u64 global_bytes_read = 0;
  u64 global_bytes_written = 0;
  u64 prefetches = 0;  // by single threads
};

class Launch {
 public:
  Launch(Memory& memory, RaceDetector& races, const Kernel& kernel, const LaunchShape& shape,
         std::span<const std::byte> params, const LaunchOptions& options);

  Counters run();

  // For the semantic functions.
  // Called before an access to shared data. If true, the thread stops first and repeats the
  // instruction later.
  bool hold_back(Thread& thread);
  void exit_thread(Thread& thread);
  void arrive(Thread& thread, const Instruction& i, u32 barrier, u32 expected);
  void arrive_in_warp(Thread& thread, const Instruction& i, u32 members, WarpFunction complete);
  void wake(Thread& thread);

  // Applies an access's memory order to the block's cache.
  void order_cache(const Thread& thread, Order order, Scope scope);
  const ClockRef& start_clock() const { return start_clock_; }

  Memory& memory;
  RaceDetector& races;
  SyncClocks sync;
  std::unique_ptr<Caches> caches;  // nullptr: all blocks see one memory
  const Kernel& kernel;
  std::vector<std::byte> params;
  Checks checks;
  Counters counters;
  bool host_due = false;  // memory that the host watches was accessed
  u64 stores = 0;         // lets polling threads notice progress

 private:
  void make_block(u32 index);
  void start_block();
  void set_specials(Thread& thread, u32 block) const;
  void run_turn(const Turn& turn);
  u32 run_slice(Thread& thread, u32 limit, u32 meets);
  void run_together(Warp& warp, u32 lanes, u32 slice, u32 first);
  u32 run_group(Lanes& lanes, u32 limit, u32 meets);
  void check_barrier(Block& block, u32 barrier);
  void complete_barrier(Block& block, Barrier& barrier);
  void check_warp(Warp& warp);
  bool check_group(Thread& thread);
  void saw_times();
  void run_host();
  bool settle();
  [[noreturn]] void hang(const char* why) const;

  LaunchShape shape_;
  u64 step_limit_;
  Stepping stepping_;
  u32 start_time_;
  ClockRef start_clock_;
  std::vector<std::unique_ptr<Block>> blocks_;
  u64 live_ = 0;
  u64 started_ = 0;  // number of blocks started
  bool last_first_ = false;
  Scheduler scheduler_;
  HostReader* host_ = nullptr;
  std::optional<HostView> host_view_;
  Random host_random_;
  bool slow_host_ = false;
  u64 stalled_polls_ = 0;
  u64 stores_at_last_poll_ = 0;
};

}  // namespace ptx
