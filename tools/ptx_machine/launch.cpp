// Sets a grid up and runs it turn by turn; knows threads and waiting, no opcode.
#include "tools/ptx_machine/launch.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "tools/ptx_machine/address.hpp"
#include "tools/ptx_machine/wait_report.hpp"

namespace ptx {

void fail(const Thread& thread, ErrorKind kind, const std::string& what) {
  const Kernel& kernel = thread.launch->kernel;
  throw MachineError(
      kind, fmt::format("{}, block {} thread {}: {}\n  at {}", kernel.name, thread.block->index,
                        thread.index, what, kernel.place(thread.pc - 1)));
}

Launch::Launch(Memory& memory_in, RaceDetector& races_in, const Kernel& kernel_in,
               const LaunchShape& shape, std::span<const std::byte> params_in,
               const LaunchOptions& options)
    : memory(memory_in),
      races(races_in),
      kernel(kernel_in),
      params(params_in.begin(), params_in.end()),
      checks(options.checks),
      shape_(shape),
      step_limit_(options.step_limit),
      stepping_(options.stepping),
      start_time_(races.begin_launch()),
      scheduler_(options.seed),
      host_(options.host),
      host_random_(options.seed) {
  auto refuse = [&](const std::string& why) {
    throw MachineError(ErrorKind::bad_launch, fmt::format("{}: {}", kernel.name, why));
  };
  u64 threads = shape.block.count();
  u64 blocks = shape.grid.count();
  if (threads == 0 || blocks == 0) refuse("the grid or the block is empty");
  if (threads > kernel.max_threads || threads > 1024) {
    refuse(fmt::format("{} threads a block, at most {} are allowed", threads, kernel.max_threads));
  }
  if (kernel.required_threads != 0 && threads != kernel.required_threads) {
    refuse(
        fmt::format("{} threads a block, not the required {}", threads, kernel.required_threads));
  }
  if (blocks > 65536) refuse(fmt::format("{} blocks, at most 65536 are resident here", blocks));
  if (params.size() != kernel.param_bytes) {
    refuse(fmt::format("{} bytes of parameters, not {}", params.size(), kernel.param_bytes));
  }
  auto clock = std::make_shared<Clock>();
  clock->floor.assign(blocks, start_time_ - 1);
  start_clock_ = std::move(clock);
  for (u32 b = 0; b < blocks; ++b) make_block(b);
  if (options.incoherent) {
    caches = std::make_unique<Caches>(static_cast<u32>(blocks), options.seed);
  }
  if (host_ != nullptr) host_view_.emplace(*this);
  slow_host_ = options.seed / 2 % 2 != 0;
  // A device has room for one block or for many; nobody may rely on the last one.
  last_first_ = options.seed / 2 % 2 != 0;
  u64 resident = shape.cooperative       ? blocks
                 : options.seed % 2 != 0 ? 1
                                         : std::max<u64>(1, blocks - 1);
  while (started_ < resident) start_block();
}

void Launch::start_block() {
  if (started_ == blocks_.size()) return;
  u64 k = started_++;
  scheduler_.unpark(*blocks_[last_first_ ? blocks_.size() - 1 - k : k]);
}

bool Launch::hold_back(Thread& thread) {
  if (std::exchange(thread.held, false)) return false;
  Scheduler::Freeze freeze = scheduler_.freeze();
  if (freeze == Scheduler::Freeze::no || thread.spinning) [[likely]]
    return false;
  thread.stop = true;
  scheduler_.freeze(*thread.block);
  thread.held = freeze == Scheduler::Freeze::before;
  if (thread.held) --thread.pc;
  return thread.held;
}

void Launch::make_block(u32 index) {
  auto owned = std::make_unique<Block>();
  Block& block = *owned;
  auto threads = static_cast<u32>(shape_.block.count());
  block.index = index;
  block.live = threads;
  block.threads = std::vector<Thread>(threads);
  std::size_t shared = kernel.dynamic_shared_offset + shape_.dynamic_shared_bytes;
  block.shared.assign(shared, std::byte{kFreshByte});
  block.shared_state.assign(shared, kGap);
  for (const SharedVariable& v : kernel.shared) {
    std::memset(block.shared_state.data() + v.offset, 0, v.bytes);
  }
  std::fill_n(block.shared_state.begin() + kernel.dynamic_shared_offset,
              shape_.dynamic_shared_bytes, u8{0});
  block.shared_cells.resize(shared / 4 + 1);
  block.local.assign(std::size_t{kernel.local_bytes} * threads, std::byte{kFreshByte});
  block.local_state.assign(block.local.size(), 0);
  block.warps = std::vector<Warp>((threads + kLanes - 1) / kLanes);
  const std::size_t rows = kernel.frame_rows;
  block.registers = std::make_unique_for_overwrite<Row[]>(block.warps.size() * rows);
  Row* file = block.registers.get();
  for (auto [slot, value] : kernel.frame) {
    if (is_wide(slot)) {
      std::fill_n(row_of<u64>(file, slot), kLanes, value);
    } else {
      std::fill_n(row_of<u32>(file, slot), kLanes, static_cast<u32>(value));
    }
  }
  for (std::size_t w = 0; w < block.warps.size(); ++w) {
    block.warps[w].registers = file + w * rows;
    if (w != 0) std::copy_n(file, rows, block.warps[w].registers);
  }
  for (u32 t = 0; t < threads; ++t) {
    Thread& thread = block.threads[t];
    Warp& warp = block.warps[t / kLanes];
    thread.lane = static_cast<u8>(t % kLanes);
    thread.r = Registers(warp.registers, thread.lane);
    thread.index = t;
    thread.block = &block;
    thread.warp = &warp;
    thread.launch = this;
    thread.epoch = (u64{start_time_} << 32) | thread_id(index, t);
    thread.clock = start_clock_;
    thread.local = block.local.data() + std::size_t{kernel.local_bytes} * t;
    thread.local_state = block.local_state.data() + std::size_t{kernel.local_bytes} * t;
    set_specials(thread, index);
    if (warp.count == 0) warp.lanes = &thread;
    warp.block = &block;
    warp.ready |= 1u << warp.count++;
  }
  for (Warp& warp : block.warps) warp.live = warp.ready;
  block.parked = true;
  live_ += threads;
  blocks_.push_back(std::move(owned));
}

void Launch::set_specials(Thread& thread, u32 block) const {
  const Dim3& g = shape_.grid;
  const Dim3& n = shape_.block;
  u32 t = thread.index;
  u32 lane_bit = 1u << thread.lane;
  auto value = [&](Special special) -> u64 {
    switch (special) {
      case Special::tid_x:
        return t % n.x;
      case Special::tid_y:
        return t / n.x % n.y;
      case Special::tid_z:
        return t / (n.x * n.y);
      case Special::ntid_x:
        return n.x;
      case Special::ntid_y:
        return n.y;
      case Special::ntid_z:
        return n.z;
      case Special::ctaid_x:
        return block % g.x;
      case Special::ctaid_y:
        return block / g.x % g.y;
      case Special::ctaid_z:
        return block / (g.x * g.y);
      case Special::nctaid_x:
        return g.x;
      case Special::nctaid_y:
        return g.y;
      case Special::nctaid_z:
        return g.z;
      case Special::laneid:
        return thread.lane;
      case Special::warpid:
        return t / 32;
      case Special::nwarpid:
        return (n.count() + 31) / 32;
      case Special::smid:
        return block;
      case Special::nsmid:
        return g.count();
      case Special::lanemask_eq:
        return lane_bit;
      case Special::lanemask_lt:
        return lane_bit - 1;
      case Special::lanemask_le:
        return lane_bit | (lane_bit - 1);
      case Special::lanemask_gt:
        return static_cast<u32>(~(lane_bit | (lane_bit - 1)));
      case Special::lanemask_ge:
        return static_cast<u32>(~(lane_bit - 1));
      case Special::gridid:
        return start_time_;
      case Special::dynamic_smem_size:
        return shape_.dynamic_shared_bytes;
      case Special::total_smem_size:
        return kernel.static_shared_bytes + shape_.dynamic_shared_bytes;
    }
    return 0;
  };
  for (const SpecialSlot& s : kernel.specials) thread.r[s.slot] = value(s.special);
}

Counters Launch::run() {
  Allocation* watched = host_ != nullptr ? memory.find(host_->address) : nullptr;
  if (watched != nullptr) watched->watched = true;
  try {
    while (live_ > 0) {
      Turn turn = scheduler_.next();
      if (turn.warp == nullptr) hang("no thread can run");
      ++counters.turns;
      run_turn(turn);
      if (caches != nullptr) caches->some_arrives(turn.warp->block->index);
      if (host_ != nullptr) run_host();
      if (counters.instructions > step_limit_) hang("the step limit is reached");
      if (!scheduler_.nobody_but_pollers() || stores != stores_at_last_poll_) {
        stalled_polls_ = 0;
        stores_at_last_poll_ = stores;
      } else if (++stalled_polls_ > 4096 + 64 * scheduler_.pollers()) {
        if (settle()) {
          stalled_polls_ = 0;
        } else {
          hang("every thread polls a word that nobody will write");
        }
      }
    }
  } catch (...) {
    saw_times();
    throw;
  }
  saw_times();
  return counters;
}

// A few steps at a time, mostly none or one. Under half of the seeds it is slow: between two steps of
// its own whole launches may pass.
void Launch::run_host() {
  if (!std::exchange(host_due, false) && slow_host_) return;
  for (u32 left = host_random_.below(6); left > 1; --left) host_->step(*host_view_);
}

bool Launch::settle() { return caches != nullptr && caches->settle(); }

void Launch::order_cache(const Thread& thread, Order order, Scope scope) {
  if (caches == nullptr) [[likely]]
    return;
  u32 block = thread.block->index;
  if (order == Order::release || order == Order::acq_rel) caches->release(block, scope);
  bool acquires = order == Order::acquire || order == Order::acq_rel;
  if (acquires && scope != Scope::cta) caches->acquire(block);
}

void Launch::saw_times() {
  settle();
  if (Allocation* a = host_ != nullptr ? memory.find(host_->address) : nullptr) a->watched = false;
  for (const auto& block : blocks_) {
    for (const Thread& t : block->threads) races.saw_time(t.time());
  }
}

void Launch::run_turn(const Turn& turn) {
  Warp& warp = *turn.warp;
  u32 first = scheduler_.first_lane(warp.count);
  u32 lanes = warp.ready & (turn.poll ? warp.spinning : ~warp.spinning);
  bool together = stepping_ == Stepping::by_seed ? turn.together && !std::has_single_bit(lanes)
                                                 : stepping_ == Stepping::together;
  if (together) {
    run_together(warp, lanes, turn.slice, first);
    scheduler_.update(warp);
    return;
  }
  for (u32 k = 0; k < warp.count; ++k) {
    u32 lane = first + k < warp.count ? first + k : first + k - warp.count;
    u32 bit = 1u << lane;
    if ((warp.ready & bit) == 0 || ((warp.spinning & bit) != 0) != turn.poll) continue;
    Thread& thread = warp.lanes[lane];
    counters.instructions += run_slice(thread, turn.slice, ~u32{0});
    warp.spinning = thread.spinning ? warp.spinning | bit : warp.spinning & ~bit;
  }
  scheduler_.update(warp);
}

// Until `limit` instructions are done, the thread stops or comes to the place `meets`.
u32 Launch::run_slice(Thread& thread, u32 limit, u32 meets) {
  const Instruction* code = kernel.code.data();
  u32 done = 0;
  thread.stop = false;
  do {
    const Instruction& i = code[thread.pc++];
    ++done;
    if (i.guarded && ((thread.r[i.guard] & 1) != 0) != i.guard_value) continue;
    i.run(thread, i);
  } while (done < limit && !thread.stop && thread.pc < meets);
  return done;
}

void Launch::hang(const char* why) const {
  std::vector<const Block*> blocks;
  for (const auto& b : blocks_) blocks.push_back(b.get());
  std::string not_started;
  if (started_ < blocks_.size()) {
    not_started = fmt::format(
        "{} of {} blocks have not started: only a cooperative launch lets a block wait for another",
        blocks_.size() - started_, blocks_.size());
  }
  throw MachineError(
      ErrorKind::hang,
      fmt::format("{}: {} after {} thread-instructions; waiting threads:\n{}", kernel.name, why,
                  counters.instructions, report_waiting(kernel, blocks)) +
          not_started);
}

}  // namespace ptx
