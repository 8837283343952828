// A turn of a warp whose lanes stay together: those that stand furthest back in the text execute one
// instruction after the other at once, until they meet the others or part. Knows no opcode.
#include <algorithm>

#include "tools/ptx_machine/lanes.hpp"
#include "tools/ptx_machine/launch.hpp"

namespace ptx {
namespace {

// Bit k is bit 0 of lane k's value.
PTX_EACH_LEVEL u32 bits_of(const u32* row) {
  u32 bits = 0;
  for (u32 k = 0; k < kLanes; ++k) bits |= (row[k] & 1) << k;
  return bits;
}

PTX_EACH_LEVEL void set_mask(Lanes& lanes) {
  for (u32 k = 0; k < kLanes; ++k) lanes.mask[k] = 0 - (lanes.bits >> k & 1);
}

template <class T>
void blend(const Lanes& lanes, T* row, const T* values) {
  for (u32 k = 0; k < kLanes; ++k) {
    auto mask = static_cast<T>(static_cast<std::make_signed_t<T>>(static_cast<s32>(lanes.mask[k])));
    row[k] = (values[k] & mask) | (row[k] & ~mask);
  }
}

// The group that runs next: the lanes that stand furthest back, and where the nearest others stand.
struct Group {
  u32 bits = 0;
  u32 pc = ~u32{0};
  u32 meets = ~u32{0};
};

Group furthest_back(const Warp& warp, u32 lanes) {
  Group group;
  for (u32 rest = lanes; rest != 0; rest &= rest - 1) {
    auto lane = static_cast<u32>(std::countr_zero(rest));
    u32 pc = warp.lanes[lane].pc;
    if (pc < group.pc) {
      group.meets = group.pc;
      group.pc = pc;
      group.bits = 0;
    }
    if (pc == group.pc) {
      group.bits |= 1u << lane;
    } else {
      group.meets = std::min(group.meets, pc);
    }
  }
  return group;
}

void place(const Warp& warp, u32 lanes, u32 pc) {
  for (u32 rest = lanes; rest != 0; rest &= rest - 1) {
    warp.lanes[std::countr_zero(rest)].pc = pc;
  }
}

// Executes the instruction for one lane after the other. Returns the lanes that continue behind it.
u32 run_one_by_one(const Lanes& lanes, const Instruction& i) {
  u32 on = lanes.bits;
  place(*lanes.warp, lanes.bits, lanes.pc + 1);
  lanes.each([&](u32 lane) {
    Thread& thread = lanes.warp->lanes[lane];
    i.run(thread, i);
    if (thread.stop || thread.pc != lanes.pc + 1) on &= ~(1u << lane);
  });
  return on;
}

}  // namespace

PTX_EACH_LEVEL void set_some(const Lanes& lanes, u32* row, const u32* values) {
  blend(lanes, row, values);
}
PTX_EACH_LEVEL void set_some(const Lanes& lanes, u64* row, const u64* values) {
  blend(lanes, row, values);
}

// Runs the lanes, which stand at one place, until the first of them parts, or `limit` instructions
// are done, or a place `meets` is reached. Returns how many were executed.
u32 Launch::run_group(Lanes& lanes, u32 limit, u32 meets) {
  const Instruction* code = kernel.code.data();
  const u32 all = lanes.bits;
  u32 done = 0;
  bool masked = false;  // by a guard
  if (!lanes.all()) set_mask(lanes);
  while (done < limit && lanes.pc < meets) {
    const Instruction& i = code[lanes.pc];
    ++done;
    if (i.guarded) {
      u32 guard = bits_of(lanes.row<u32>(i.guard));
      lanes.bits = all & (i.guard_value ? guard : ~guard);
    }
    if ((masked || lanes.bits != all) && !lanes.all()) set_mask(lanes);
    masked = lanes.bits != all;
    u32 on = all;  // the lanes that continue behind the instruction
    if (i.branches) {
      on = all & ~lanes.bits;
      if (on != 0) place(*lanes.warp, lanes.bits, static_cast<u32>(i.offset));
    } else if (i.run_lanes == nullptr || !i.run_lanes(lanes, i)) {
      on = (all & ~lanes.bits) | run_one_by_one(lanes, i);
    }
    lanes.bits = all;
    lanes.pc = i.branches && on == 0 ? static_cast<u32>(i.offset) : lanes.pc + 1;
    if (on != all && !(i.branches && on == 0)) {
      place(*lanes.warp, on, lanes.pc);
      return done;
    }
  }
  place(*lanes.warp, all, lanes.pc);
  return done;
}

void Launch::run_together(Warp& warp, u32 lanes, u32 slice, u32 first) {
  std::array<u32, kLanes> left{};
  for (u32 rest = lanes; rest != 0; rest &= rest - 1) {
    auto lane = static_cast<u32>(std::countr_zero(rest));
    left[lane] = slice;
    warp.lanes[lane].stop = false;
  }
  const u32 all = lanes;
  while (lanes != 0) {
    Group group = furthest_back(warp, lanes);
    u32 limit = slice;
    for (u32 rest = group.bits; rest != 0; rest &= rest - 1) {
      limit = std::min(limit, left[static_cast<u32>(std::countr_zero(rest))]);
    }
    u32 done = 0;
    if (stepping_ == Stepping::by_seed && std::has_single_bit(group.bits)) {
      done = run_slice(warp.lanes[std::countr_zero(group.bits)], limit, group.meets);
    } else {
      Lanes together{.warp = &warp, .bits = group.bits, .first = first, .pc = group.pc};
      done = run_group(together, limit, group.meets);
    }
    counters.instructions += u64{done} * static_cast<u32>(std::popcount(group.bits));
    for (u32 rest = group.bits; rest != 0; rest &= rest - 1) {
      auto lane = static_cast<u32>(std::countr_zero(rest));
      left[lane] -= done;
      if (left[lane] == 0 || warp.lanes[lane].stop) lanes &= ~(1u << lane);
    }
  }
  for (u32 rest = all; rest != 0; rest &= rest - 1) {
    auto lane = static_cast<u32>(std::countr_zero(rest));
    u32 bit = 1u << lane;
    warp.spinning = warp.lanes[lane].spinning ? warp.spinning | bit : warp.spinning & ~bit;
  }
}

}  // namespace ptx
