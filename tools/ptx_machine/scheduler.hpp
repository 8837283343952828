// Chooses which warp runs next and for how long, from a seed; knows nothing of instructions.
#pragma once

#include <array>
#include <vector>

#include "tools/ptx_machine/thread.hpp"

namespace ptx {

// splitmix64: small, and the same everywhere.
class Random {
 public:
  explicit Random(u64 seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x1234567) {}
  u64 next() {
    u64 z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  u32 below(u32 bound) { return static_cast<u32>(((next() >> 32) * bound) >> 32); }

 private:
  u64 state_;
};

struct Turn {
  Warp* warp = nullptr;  // nullptr: nobody can run
  u32 slice = 0;         // instructions per thread
  bool poll = false;     // the warp's spinning threads run, not its others
  bool together = true;  // lanes at one place run at once; else one lane after the other
};

class Scheduler {
 public:
  explicit Scheduler(u64 seed);

  // Whether this seed freezes blocks, and what it does at a strong access that is about to happen.
  enum class Freeze : u8 { no, before, after };
  Freeze freeze() {
    if (style_ != Style::frozen) [[likely]]
      return Freeze::no;
    u32 drawn = random_.below(8);
    return drawn == 0 ? Freeze::before : drawn == 1 ? Freeze::after : Freeze::no;
  }
  // The block takes no turn for thousands of them, or until nobody else can do anything but poll.
  void freeze(Block& block);
  // A block that waits for its place on the device.
  void park(Block& block);
  void unpark(Block& block);

  // Tells that the warp's ready or spinning lanes have changed.
  void update(Warp& warp);
  Turn next();
  u32 first_lane(u32 count) { return random_.below(count); }
  bool nobody_but_pollers() const { return lists_[0].empty(); }
  u64 pollers() const { return lists_[1].size(); }

 private:
  // Seeds take turns in how they are unfair: long slices show what needs one thread far ahead of
  // the others, short ones what needs two in step, laggards what needs a whole block far behind,
  // frozen ones what needs a block to stand still between two of its accesses to what all blocks
  // share.
  enum class Style : u8 { mixed, long_slices, short_slices, laggards, frozen };
  static constexpr u64 kStyles = 5;

  u32 slice();
  bool lags(const Warp& warp) const;
  void leave(Warp& warp);

  Random random_;
  Style style_;
  u64 laggard_salt_;
  u64 turn_ = 0;
  std::vector<std::pair<u64, Block*>> frozen_;  // and until which turn
  std::array<std::vector<Warp*>, 2> lists_;     // warps with somebody to run; with only pollers
};

}  // namespace ptx
