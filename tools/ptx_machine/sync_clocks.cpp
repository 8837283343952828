// Release and acquire patterns of the PTX memory model on vector clocks; knows threads, no values.
#include "tools/ptx_machine/sync_clocks.hpp"

namespace ptx {
namespace {

bool acquires(Order order) { return order == Order::acquire || order == Order::acq_rel; }
bool releases(Order order) { return order == Order::release || order == Order::acq_rel; }

ClockRef snapshot(const ClockRef& clock, u32 id, u32 time) {
  auto copy = std::make_shared<Clock>(*clock);
  copy->learn(id, time);
  return copy;
}

}  // namespace

void SyncClocks::learn(ClockRef& into, const ClockRef& clock) {
  if (clock == nullptr || into == clock) return;
  if (into == nullptr) {
    into = clock;
    return;
  }
  auto joined = std::make_shared<Clock>(*into);
  joined->join(*clock);
  into = std::move(joined);
}

void SyncClocks::merge(Released& into, const ClockRef& clock, u32 block) {
  if (clock == nullptr) return;
  into.one_block = into.clock == nullptr || (into.one_block && into.block == block);
  into.block = block;
  learn(into.clock, clock);
}

void SyncClocks::read(Thread& thread, u64 word, Order order, Scope scope) {
  auto at = words_.find(word);
  if (at == words_.end()) return;
  const Word& w = at->second;
  u32 block = thread.block->index;
  auto take = [&](const Released& released, bool only_own_block) {
    if (released.clock == nullptr) return;
    bool own = released.one_block && released.block == block;
    if (only_own_block && !own) return;
    if (acquires(order)) {
      learn(thread.clock, released.clock);
      return;
    }
    if (thread.fences == nullptr) thread.fences = std::make_unique<FenceState>();
    learn(thread.fences->pending_gpu, released.clock);
    if (own) learn(thread.fences->pending_cta, released.clock);
  };
  take(w.gpu, scope == Scope::cta);
  take(w.cta, true);
}

void SyncClocks::write(Thread& thread, u64 word, Order order, Scope scope, bool keeps_sequence) {
  bool fenced = thread.fences != nullptr &&
                (thread.fences->released_gpu != nullptr || thread.fences->released_cta != nullptr);
  auto at = words_.find(word);
  if (!releases(order) && !fenced) {
    if (!keeps_sequence && at != words_.end()) words_.erase(at);
    return;
  }
  Word& w = at != words_.end() ? at->second : words_[word];
  if (!keeps_sequence) w = {};
  u32 block = thread.block->index;
  if (releases(order)) {
    ClockRef mine = snapshot(thread.clock, thread.id(), thread.time());
    thread.set_time(thread.time() + 1);
    merge(scope == Scope::gpu ? w.gpu : w.cta, mine, block);
  } else {
    const FenceState& f = *thread.fences;
    if (f.released_gpu != nullptr) {
      merge(scope == Scope::gpu ? w.gpu : w.cta,
            snapshot(f.released_gpu, thread.id(), f.released_gpu_time), block);
    }
    if (f.released_cta != nullptr) {
      merge(w.cta, snapshot(f.released_cta, thread.id(), f.released_cta_time), block);
    }
  }
}

void SyncClocks::fence(Thread& thread, Scope scope) {
  if (thread.fences == nullptr) thread.fences = std::make_unique<FenceState>();
  FenceState& f = *thread.fences;
  learn(thread.clock, f.pending_cta);
  if (scope == Scope::gpu) {
    learn(thread.clock, f.pending_gpu);
    f.released_gpu = thread.clock;
    f.released_gpu_time = thread.time();
  } else {
    f.released_cta = thread.clock;
    f.released_cta_time = thread.time();
  }
  thread.set_time(thread.time() + 1);
}

void SyncClocks::meet(const std::vector<Thread*>& threads, bool whole_block) {
  auto together = std::make_shared<Clock>(*threads.front()->clock);
  const Clock* seen = threads.front()->clock.get();
  u32 latest = 0;
  for (const Thread* t : threads) {
    latest = std::max(latest, t->time());
    if (t->clock.get() == seen) continue;
    together->join(*t->clock);
    seen = t->clock.get();
  }
  Block& block = *threads.front()->block;
  if (whole_block) {
    // Also of those that have exited, whose last time may be the latest.
    for (const Thread& t : block.threads) latest = std::max(latest, t.time());
    together->raise_floor(block.index, latest);
  } else {
    for (const Thread* t : threads) together->learn(t->id(), t->time());
  }
  for (Thread* t : threads) {
    t->clock = together;
    t->set_time(latest + 1);
  }
}

}  // namespace ptx
