// Lanes of a warp that are at the same instruction and execute it together. Knows the thread state.
#pragma once

#include <array>
#include <bit>

#include "tools/ptx_machine/thread.hpp"

namespace ptx {

struct Lanes {
  Warp* warp = nullptr;
  u32 bits = 0;   // one per lane that takes part
  u32 first = 0;  // the lane that goes first, by seed, if the order is observable
  u32 pc = 0;     // instruction index
  alignas(64) std::array<u64, kLanes> mask{};  // all ones for a lane that takes part

  u64* row(u32 slot) const { return warp->registers + std::size_t{slot} * kLanes; }

  // Calls for each participating lane, starting with `first`.
  template <class Each>
  void each(Each each_lane) const {
    u32 front = ~u32{0} << first;
    for (u32 part : {bits & front, bits & ~front}) {
      for (; part != 0; part &= part - 1) each_lane(static_cast<u32>(std::countr_zero(part)));
    }
  }
};

// Instructions over registers are compiled for several processor levels, among which the loader
// chooses. Sanitizers cannot run the loader's choice, which is too early for them. clang, which lints this, has no
// clones of templates.
#if defined(PTX_MACHINE_CLONES) && !defined(__clang__)
#define PTX_EACH_LEVEL __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define PTX_EACH_LEVEL
#endif

// Writes value(k) to lane k of a row. The row may be an operand: a lane reads only its own values,
// and before it writes.
#define PTX_SET_LANES(row, lanes, value)                           \
  _Pragma("GCC ivdep") for (u32 k = 0; k < kLanes; ++k) {          \
    u64 computed = value;                                          \
    (row)[k] = (computed & (lanes)[k]) | ((row)[k] & ~(lanes)[k]); \
  }

}  // namespace ptx
