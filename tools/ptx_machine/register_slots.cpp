// Allocates slots: liveness over basic blocks, then a linear scan over the intervals. Knows no
// opcode.
#include "tools/ptx_machine/register_slots.hpp"

#include <algorithm>
#include <queue>

namespace ptx {
namespace {

using Set = std::vector<u64>;

void insert(Set& set, u32 r) { set[r / 64] |= u64{1} << (r % 64); }
bool has(const Set& set, u32 r) { return (set[r / 64] >> (r % 64) & 1) != 0; }

// Instructions [begin, end) that run in sequence, with the registers live at both ends.
struct BasicBlock {
  u32 begin = 0, end = 0;
  Set reads, writes;  // reads before any write in the block; writes that always happen
  Set live_in, live_out;
};

// Marks starts of blocks: after a branch or an end, and at a branch's target.
std::vector<bool> block_starts(const std::vector<RegisterUse>& code) {
  std::vector<bool> starts(code.size() + 1);
  starts[0] = true;
  for (u32 i = 0; i < code.size(); ++i) {
    if (code[i].next.size() == 1 && code[i].next[0] == i + 1) continue;
    starts[i + 1] = true;
    for (u32 n : code[i].next) starts[n] = true;
  }
  return starts;
}

std::vector<BasicBlock> blocks_of(const std::vector<RegisterUse>& code, u32 registers) {
  std::vector<bool> starts = block_starts(code);
  std::vector<BasicBlock> blocks;
  for (u32 i = 0; i < code.size(); ++i) {
    if (starts[i]) {
      Set none((registers + 63) / 64);
      blocks.push_back({i, i, none, none, none, none});
    }
    BasicBlock& block = blocks.back();
    block.end = i + 1;
    for (u32 r : code[i].reads) {
      if (!has(block.writes, r)) insert(block.reads, r);
    }
    for (u32 r : code[i].writes) {
      // A guarded write keeps the old value if it does not happen.
      if (!code[i].guarded) {
        insert(block.writes, r);
      } else if (!has(block.writes, r)) {
        insert(block.reads, r);
      }
    }
  }
  return blocks;
}

// Fills live_in and live_out.
void find_live(const std::vector<RegisterUse>& code, std::vector<BasicBlock>& blocks) {
  std::vector<u32> block_at(code.size());
  for (u32 b = 0; b < blocks.size(); ++b) block_at[blocks[b].begin] = b;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t b = blocks.size(); b-- > 0;) {
      BasicBlock& block = blocks[b];
      for (u32 n : code[block.end - 1].next) {
        const Set& next = blocks[block_at[n]].live_in;
        for (std::size_t w = 0; w < next.size(); ++w) block.live_out[w] |= next[w];
      }
      for (std::size_t w = 0; w < block.live_in.size(); ++w) {
        u64 live = block.reads[w] | (block.live_out[w] & ~block.writes[w]);
        changed = changed || live != block.live_in[w];
        block.live_in[w] = live;
      }
    }
  }
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
                                   const std::vector<BasicBlock>& blocks, u32 registers) {
  std::vector<Interval> intervals;
  for (u32 r = 0; r < registers; ++r) intervals.push_back({.reg = r});
  for (u32 i = 0; i < code.size(); ++i) {
    for (u32 r : code[i].reads) intervals[r].cover(i);
    for (u32 r : code[i].writes) intervals[r].cover(i);
  }
  auto cover_all = [&](const Set& live, u32 at) {
    for (std::size_t w = 0; w < live.size(); ++w) {
      for (u64 rest = live[w]; rest != 0; rest &= rest - 1) {
        intervals[w * 64 + static_cast<u32>(std::countr_zero(rest))].cover(at);
      }
    }
  };
  for (const BasicBlock& block : blocks) {
    cover_all(block.live_in, block.begin);
    cover_all(block.live_out, block.end - 1);
  }
  std::erase_if(intervals, [](const Interval& v) { return v.begin > v.end; });
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  return intervals;
}

}  // namespace

SharedSlots share_slots(const std::vector<RegisterUse>& code, const std::vector<bool>& wide) {
  auto registers = static_cast<u32>(wide.size());
  SharedSlots slots{.of = std::vector<u32>(registers, kNoSlot)};
  std::vector<BasicBlock> blocks = blocks_of(code, registers);
  find_live(code, blocks);
  for (u32 r = 0; r < registers; ++r) {
    if (has(blocks[0].live_in, r)) slots.unwritten.push_back(r);
  }
  using Busy = std::pair<u32, u32>;  // (end, slot)
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy;
  std::array<std::vector<u32>, 2> free;  // narrow and wide slots
  for (const Interval& v : intervals_of(code, blocks, registers)) {
    // A slot becomes free after the last instruction that reads it, not within it: some
    // instructions write one thread's result while they still read for another thread.
    while (!busy.empty() && busy.top().first < v.begin) {
      u32 slot = busy.top().second;
      free[is_wide(slot) ? 1 : 0].push_back(slot);
      busy.pop();
    }
    std::vector<u32>& fitting = free[wide[v.reg] ? 1 : 0];
    if (fitting.empty()) fitting.push_back(new_slot(slots.rows, wide[v.reg]));
    slots.of[v.reg] = fitting.back();
    fitting.pop_back();
    busy.emplace(v.end, slots.of[v.reg]);
  }
  return slots;
}

}  // namespace ptx
