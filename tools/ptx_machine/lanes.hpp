// Lanes of a warp that stand at the same instruction and execute it at once. Knows the thread state.
#pragma once

#include <array>
#include <bit>

#include "tools/ptx_machine/thread.hpp"

namespace ptx {

struct Lanes {
  Warp* warp = nullptr;
  u32 bits = 0;   // one per lane that takes part
  u32 first = 0;  // the lane that the seed puts first, where their order can be seen
  u32 pc = 0;     // of the instruction
  alignas(64) std::array<u64, kLanes> mask{};  // all ones for a lane that takes part

  u64* row(u32 slot) const { return warp->registers + std::size_t{slot} * kLanes; }

  // Calls for each lane that takes part, beginning with the first one.
  template <class Each>
  void each(Each each_lane) const {
    u32 front = ~u32{0} << first;
    for (u32 part : {bits & front, bits & ~front}) {
      for (; part != 0; part &= part - 1) each_lane(static_cast<u32>(std::countr_zero(part)));
    }
  }
};

// The instructions over registers are compiled for several levels of the processor, of which the
// loader chooses one. Sanitizers cannot run what chooses so early.
#if defined(PTX_MACHINE_CLONES)
#define PTX_EACH_LEVEL __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define PTX_EACH_LEVEL
#endif

// Writes value(k) to lane k of a row. The row may be one of the operands: a lane reads only its own
// values, before it writes.
#define PTX_SET_LANES(row, lanes, value)                           \
  _Pragma("GCC ivdep") for (u32 k = 0; k < kLanes; ++k) {          \
    u64 computed = value;                                          \
    (row)[k] = (computed & (lanes)[k]) | ((row)[k] & ~(lanes)[k]); \
  }

}  // namespace ptx
