// Liveness over instructions, then a linear scan over the intervals; knows no opcode.
#include "tools/ptx_machine/register_slots.hpp"

#include <algorithm>
#include <queue>

namespace ptx {
namespace {

using Set = std::vector<u64>;

void insert(Set& set, u32 r) { set[r / 64] |= u64{1} << (r % 64); }
void erase(Set& set, u32 r) { set[r / 64] &= ~(u64{1} << (r % 64)); }

// What is live before each instruction.
std::vector<Set> live_before(const std::vector<RegisterUse>& code, u32 registers) {
  std::vector<Set> live(code.size(), Set((registers + 63) / 64));
  Set now((registers + 63) / 64);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = code.size(); i-- > 0;) {
      std::fill(now.begin(), now.end(), 0);
      for (u32 n : code[i].next) {
        for (std::size_t w = 0; w < now.size(); ++w) now[w] |= live[n][w];
      }
      for (u32 r : code[i].writes) code[i].guarded ? insert(now, r) : erase(now, r);
      for (u32 r : code[i].reads) insert(now, r);
      if (now == live[i]) continue;
      changed = true;
      live[i].swap(now);
    }
  }
  return live;
}

struct Interval {
  u32 reg;
  u32 begin = ~u32{0};
  u32 end = 0;
  void cover(u32 at) {
    begin = std::min(begin, at);
    end = std::max(end, at);
  }
};

std::vector<Interval> intervals_of(const std::vector<RegisterUse>& code,
                                   const std::vector<Set>& live, u32 registers) {
  std::vector<Interval> intervals;
  for (u32 r = 0; r < registers; ++r) intervals.push_back({.reg = r});
  for (u32 i = 0; i < code.size(); ++i) {
    for (u32 r : code[i].reads) intervals[r].cover(i);
    for (u32 r : code[i].writes) intervals[r].cover(i);
    for (std::size_t w = 0; w < live[i].size(); ++w) {
      for (u64 rest = live[i][w]; rest != 0; rest &= rest - 1) {
        intervals[w * 64 + static_cast<u32>(std::countr_zero(rest))].cover(i);
      }
    }
  }
  std::erase_if(intervals, [](const Interval& v) { return v.begin > v.end; });
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  return intervals;
}

}  // namespace

SharedSlots share_slots(const std::vector<RegisterUse>& code, u32 registers) {
  SharedSlots slots{.of = std::vector<u32>(registers, kNoSlot)};
  std::vector<Set> live = live_before(code, registers);
  for (u32 r = 0; r < registers; ++r) {
    if ((live[0][r / 64] >> (r % 64) & 1) != 0) slots.unwritten.push_back(r);
  }
  using Busy = std::pair<u32, u32>;  // (end, slot)
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy;
  std::vector<u32> free;
  for (const Interval& v : intervals_of(code, live, registers)) {
    // A slot is free behind the last instruction that reads it, not already in it: some write
    // their result for one thread while they still read for another.
    while (!busy.empty() && busy.top().first < v.begin) {
      free.push_back(busy.top().second);
      busy.pop();
    }
    if (free.empty()) free.push_back(slots.count++);
    slots.of[v.reg] = free.back();
    free.pop_back();
    busy.emplace(v.end, slots.of[v.reg]);
  }
  return slots;
}

}  // namespace ptx
