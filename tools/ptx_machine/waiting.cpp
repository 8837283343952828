// Waiting of threads for each other: block barriers, warp operations, exits.
#include <fmt/format.h>

#include "tools/ptx_machine/launch.hpp"

namespace ptx {
namespace {

void stop(Thread& thread, State state) {
  thread.state = state;
  thread.stop = true;
  thread.warp->ready &= ~(1u << thread.lane);
}

// bar.red returns the reduction over all predicates to every thread.
void reduce(const std::vector<Thread*>& threads) {
  u32 set = 0;
  for (const Thread* t : threads) {
    set += ((t->r[t->pending->c] & 1) != 0) != t->pending->negate ? 1 : 0;
  }
  for (const Thread* t : threads) {
    u64 result[3] = {set == threads.size(), set > 0, set};  // and, or, popc
    t->r[t->pending->d] = result[t->pending->mode];
  }
}

}  // namespace

void Launch::wake(Thread& thread) {
  thread.state = State::ready;
  thread.pending = nullptr;
  thread.warp->ready |= 1u << thread.lane;
  scheduler_.update(*thread.warp);
}

void Launch::exit_thread(Thread& thread) {
  stop(thread, State::exited);
  Block& block = *thread.block;
  thread.warp->live &= ~(1u << thread.lane);
  --block.live;
  --live_;
  // Waiting threads no longer need this one.
  for (u32 b = 0; b < block.barriers.size(); ++b) check_barrier(block, b);
  check_warp(*thread.warp);
  if (block.live == 0) start_block();
}

void Launch::arrive(Thread& thread, const Instruction& i, u32 barrier, u32 expected) {
  if (barrier >= thread.block->barriers.size()) {
    fail(thread, ErrorKind::bad_operand, fmt::format("there is no barrier {}", barrier));
  }
  Barrier& b = thread.block->barriers[barrier];
  if (!b.arrived.empty() && b.expected != expected) {
    fail(thread, ErrorKind::divergent_barrier,
         fmt::format("barrier {} is waited at for {} and for {} threads", barrier, b.expected,
                     expected));
  }
  b.expected = expected;
  b.arrived.push_back(&thread);
  thread.pending = &i;
  thread.barrier = barrier;
  stop(thread, State::at_barrier);
  check_barrier(*thread.block, barrier);
}

void Launch::check_barrier(Block& block, u32 barrier) {
  Barrier& b = block.barriers[barrier];
  if (b.arrived.empty()) return;
  u32 wanted = b.expected == 0 ? block.live : b.expected;
  if (b.arrived.size() >= wanted) complete_barrier(block, b);
}

void Launch::complete_barrier(Block& block, Barrier& barrier) {
  std::vector<Thread*> threads;
  threads.swap(barrier.arrived);
  const Instruction* first_of_warp = nullptr;
  const Warp* warp = nullptr;
  if (threads.size() == block.threads.size()) {
    std::transform(block.threads.begin(), block.threads.end(), threads.begin(),
                   [](Thread& t) { return &t; });
  } else {
    std::sort(threads.begin(), threads.end(),
              [](const Thread* a, const Thread* b) { return a->index < b->index; });
  }
  for (Thread* t : threads) {
    bool reduces = (t->pending->d != kNoSlot) == (threads.front()->pending->d != kNoSlot);
    bool same_place = t->warp != warp || t->pending == first_of_warp || t->pending->count == 0;
    if (!reduces || !same_place) {
      fail(*t, ErrorKind::divergent_barrier,
           fmt::format("its warp meets barrier {} at another place, too: {}", t->barrier,
                       kernel.place(static_cast<u32>(first_of_warp - kernel.code.data()))));
    }
    warp = t->warp;
    first_of_warp = t->pending;
  }
  ++counters.barriers;
  if (threads.front()->pending->d != kNoSlot) reduce(threads);
  // Exited threads do not take part, and their work is not ordered.
  SyncClocks::meet(threads, threads.size() == block.threads.size());
  for (Thread* t : threads) wake(*t);
}

void Launch::arrive_in_warp(Thread& thread, const Instruction& i, u32 members,
                            WarpFunction complete) {
  if ((members >> thread.lane & 1u) == 0) {
    fail(thread, ErrorKind::bad_warp_operation,
         fmt::format("lane {} is not in its own member mask {:#010x}", thread.lane, members));
  }
  thread.pending = &i;
  thread.pending_mask = members;
  thread.complete = complete;
  stop(thread, State::at_warp_operation);
  check_group(thread);
}

// Lanes meet if they execute the same operation with the same mask, anywhere in the text.
bool Launch::check_group(Thread& thread) {
  Warp& warp = *thread.warp;
  u32 members = thread.pending_mask & warp.live;
  auto row_of = [&](const Instruction& i) {
    return kernel.rows[static_cast<std::size_t>(&i - kernel.code.data())];
  };
  for (u32 rest = members; rest != 0; rest &= rest - 1) {
    const Thread& o = warp.lanes[std::countr_zero(rest)];
    if (o.state != State::at_warp_operation || o.pending_mask != thread.pending_mask ||
        row_of(*o.pending) != row_of(*thread.pending) || o.pending->mode != thread.pending->mode) {
      return false;
    }
  }
  thread.complete(warp, members);
  for (u32 rest = members; rest != 0; rest &= rest - 1) wake(warp.lanes[std::countr_zero(rest)]);
  return true;
}

void Launch::check_warp(Warp& warp) {
  for (u32 lane = 0; lane < warp.count; ++lane) {
    if (warp.lanes[lane].state == State::at_warp_operation) check_group(warp.lanes[lane]);
  }
}

}  // namespace ptx
