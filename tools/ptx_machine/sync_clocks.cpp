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

SyncState& SyncClocks::state_of(Thread& thread) {
  if (thread.sync == nullptr) thread.sync = std::make_unique<SyncState>();
  return *thread.sync;
}

void SyncClocks::read(Thread& thread, u64 word, Order order, Scope scope) {
  auto at = words_.find(word);
  if (at == words_.end()) return;
  u32 block = thread.block->index;
  for (Scope by : {Scope::sys, Scope::gpu, Scope::cta}) {
    const Released& released = at->second.by[static_cast<std::size_t>(by)];
    if (released.clock == nullptr) continue;
    bool own = released.one_block && released.block == block;
    if (!own && (by == Scope::cta || scope == Scope::cta)) continue;
    if (acquires(order)) {
      learn(thread.clock, released.clock);
      continue;
    }
    SyncState& state = state_of(thread);
    learn(state.pending_gpu, released.clock);
    if (own) learn(state.pending_cta, released.clock);
  }
}

void SyncClocks::host_read(ClockRef& clock, u64 word) const {
  auto at = words_.find(word);
  if (at == words_.end()) return;
  learn(clock, at->second.by[static_cast<std::size_t>(Scope::sys)].clock);
}

// A release pattern is a release, or a relaxed write behind a fence or behind this thread's own
// release of the same word.
void SyncClocks::write(Thread& thread, u64 word, Order order, Scope scope, bool keeps_sequence) {
  auto at = words_.find(word);
  if (!releases(order) && thread.sync == nullptr) {
    if (!keeps_sequence && at != words_.end()) words_.erase(at);
    return;
  }
  Word& w = at != words_.end() ? at->second : words_[word];
  if (!keeps_sequence) w = {};
  SyncState& state = state_of(thread);
  auto mine = std::find_if(state.words.begin(), state.words.end(),
                           [&](const SyncState::Release& r) { return r.word == word; });
  if (releases(order)) {
    if (mine == state.words.end()) mine = state.words.insert(mine, SyncState::Release{});
    *mine = {thread.clock, thread.time(), scope, word};
    thread.set_time(thread.time() + 1);
  }
  auto hand_on = [&](const SyncState::Release& r) {
    if (r.clock == nullptr) return;
    merge(w.by[static_cast<std::size_t>(std::min(r.scope, scope))],
          snapshot(r.clock, thread.id(), r.time), thread.block->index);
  };
  if (mine != state.words.end()) hand_on(*mine);
  if (releases(order)) return;
  for (const SyncState::Release& r : state.fences) hand_on(r);
}

void SyncClocks::fence(Thread& thread, Scope scope) {
  SyncState& state = state_of(thread);
  learn(thread.clock, state.pending_cta);
  if (scope != Scope::cta) learn(thread.clock, state.pending_gpu);
  state.fences[static_cast<std::size_t>(scope)] = {thread.clock, thread.time(), scope};
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
