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
  // All ones for a lane that takes part. It is only set if some lane does not.
  alignas(64) std::array<u32, kLanes> mask{};

  bool all() const { return bits == ~u32{0}; }
  template <class T>
  T* row(u32 slot) const {
    return row_of<T>(warp->registers, slot);
  }
  u64 value(u32 slot, u32 lane) const {
    return is_wide(slot) ? row<u64>(slot)[lane] : row<u32>(slot)[lane];
  }

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

// The lanes of a loop do not depend on one another. clang has no such pragma.
#if defined(__clang__)
#define PTX_EACH_LANE
#else
#define PTX_EACH_LANE _Pragma("GCC ivdep")
#endif

// Writes the values of the participating lanes to the row.
void set_some(const Lanes& lanes, u32* row, const u32* values);
void set_some(const Lanes& lanes, u64* row, const u64* values);

// Writes value(k) to lane k of a row of T. The row may be an operand: a lane reads only its own
// values, and before it writes.
#define PTX_SET_LANES(T, target, lanes, value)                                     \
  {                                                                                \
    alignas(64) T held[kLanes];                                                    \
    T* const out = (lanes).all() ? (target) : held;                                \
    PTX_EACH_LANE for (u32 k = 0; k < kLanes; ++k) out[k] = static_cast<T>(value); \
    if (!(lanes).all()) set_some(lanes, target, held);                             \
  }

}  // namespace ptx
