// Chooses the next warp by the seed. Spinning threads get an occasional turn.
#include "tools/ptx_machine/scheduler.hpp"

namespace ptx {

Scheduler::Scheduler(u64 seed)
    : random_(seed), style_(static_cast<Style>(seed % kStyles)), laggard_salt_(random_.next()) {}

void Scheduler::leave(Warp& warp) {
  if (warp.list < 0) return;
  auto& list = lists_[static_cast<std::size_t>(warp.list)];
  list[warp.position] = list.back();
  list[warp.position]->position = warp.position;
  list.pop_back();
  warp.list = -1;
}

void Scheduler::update(Warp& warp) {
  int wanted = warp.block->parked                   ? -1
               : (warp.ready & ~warp.spinning) != 0 ? 0
               : warp.ready != 0                    ? 1
                                                    : -1;
  if (wanted == warp.list) return;
  leave(warp);
  if (wanted < 0) return;
  auto& list = lists_[static_cast<std::size_t>(wanted)];
  warp.list = wanted;
  warp.position = static_cast<u32>(list.size());
  list.push_back(&warp);
}

void Scheduler::park(Block& block) {
  block.parked = true;
  for (Warp& warp : block.warps) update(warp);
}

void Scheduler::unpark(Block& block) {
  block.parked = false;
  for (Warp& warp : block.warps) update(warp);
}

void Scheduler::freeze(Block& block) {
  if (block.parked) return;
  park(block);
  frozen_.emplace_back(turn_ + 1000 + random_.below(8000), &block);
}

u32 Scheduler::slice() {
  switch (style_) {
    case Style::long_slices:
      return 4096;
    case Style::short_slices:
      return 1u << random_.below(5);
    case Style::laggards:
    case Style::frozen:
    case Style::mixed:
      break;
  }
  return 1u << random_.below(10);
}

bool Scheduler::lags(const Warp& warp) const {
  return style_ == Style::laggards &&
         ((warp.block->index ^ laggard_salt_) * 0x9E3779B97F4A7C15u) >> 62 == 0;
}

Turn Scheduler::next() {
  ++turn_;
  while (!frozen_.empty() && (lists_[0].empty() || frozen_.front().first <= turn_)) {
    unpark(*frozen_.front().second);
    frozen_.erase(frozen_.begin());
  }
  // If all threads poll, a lagging warp must see what the others saw. Otherwise they wait for it,
  // and it waits for nothing.
  const bool all_poll = lists_[0].empty();
  bool poll = all_poll || (!lists_[1].empty() && random_.below(64) == 0);
  const auto& list = lists_[poll ? 1 : 0];
  if (list.empty()) return {};
  auto size = static_cast<u32>(list.size());
  Warp* warp = list[random_.below(size)];
  for (u32 again = 0; again < 8 && !all_poll && lags(*warp); ++again)
    warp = list[random_.below(size)];
  // In one turn of 32, each lane may run ahead of the others.
  return {warp, slice(), poll, random_.below(32) != 0};
}

}  // namespace ptx
