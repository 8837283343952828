// Joins and look-ups of compressed vector clocks; knows nothing of threads or memory.
#include "tools/ptx_machine/clock.hpp"

namespace ptx {
namespace {

bool by_id(const Clock::Extra& extra, u32 id) { return extra.id < id; }

}  // namespace

u32 Clock::time_of(u32 id) const {
  u32 time = floor[block_of(id)];
  auto at = std::lower_bound(extras.begin(), extras.end(), id, by_id);
  return at != extras.end() && at->id == id ? std::max(time, at->time) : time;
}

void Clock::learn(u32 id, u32 time) {
  if (time <= floor[block_of(id)]) return;
  auto at = std::lower_bound(extras.begin(), extras.end(), id, by_id);
  if (at != extras.end() && at->id == id) {
    at->time = std::max(at->time, time);
  } else {
    extras.insert(at, {id, time});
  }
}

void Clock::raise_floor(u32 block, u32 time) {
  if (time <= floor[block]) return;
  floor[block] = time;
  std::erase_if(extras, [&](const Extra& e) { return block_of(e.id) == block && e.time <= time; });
}

void Clock::join(const Clock& other) {
  for (std::size_t b = 0; b < floor.size(); ++b) floor[b] = std::max(floor[b], other.floor[b]);
  std::vector<Extra> both;
  both.reserve(extras.size() + other.extras.size());
  auto add = [&](const Extra& e) {
    if (e.time > floor[block_of(e.id)]) both.push_back(e);
  };
  auto a = extras.begin();
  auto b = other.extras.begin();
  while (a != extras.end() || b != other.extras.end()) {
    if (b == other.extras.end() || (a != extras.end() && a->id < b->id)) {
      add(*a++);
    } else if (a == extras.end() || b->id < a->id) {
      add(*b++);
    } else {
      add({a->id, std::max(a->time, b->time)});
      ++a;
      ++b;
    }
  }
  extras = std::move(both);
}

}  // namespace ptx
