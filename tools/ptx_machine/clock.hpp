// Vector clocks of a whole grid, compressed: one number per block, exceptions per thread.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "tools/ptx_machine/numbers.hpp"

namespace ptx {

// A thread's number in the whole grid is block * 1024 + index in the block.
inline constexpr u32 kThreadBits = 10;
constexpr u32 thread_id(u32 block, u32 thread) { return (block << kThreadBits) | thread; }
constexpr u32 block_of(u32 id) { return id >> kThreadBits; }
constexpr u32 index_of(u32 id) { return id & ((1u << kThreadBits) - 1); }

// A thread's knowledge of the others. floor[b] is a time up to which all threads of block b are
// known: a block's barrier gives all its threads one time. Extras are single threads that are known
// further, after a release by one thread. Shared clocks are immutable, so that a block's barrier
// costs one clock and not one per thread.
struct Clock {
  struct Extra {
    u32 id;
    u32 time;
  };

  std::vector<u32> floor;
  std::vector<Extra> extras;  // ascending id; time above floor[block_of(id)]

  u32 time_of(u32 id) const;
  void learn(u32 id, u32 time);
  void raise_floor(u32 block, u32 time);
  void join(const Clock& other);
};

using ClockRef = std::shared_ptr<const Clock>;

}  // namespace ptx
