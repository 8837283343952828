// Gives the registers of a text few slots: those that are never live together share one. A compiler
// names thousands of registers; a thread whose frame fits the cache runs twice as fast.
#pragma once

#include <vector>

#include "tools/ptx_machine/instruction.hpp"

namespace ptx {

// What one instruction does to the registers, and where the thread may be next.
struct RegisterUse {
  std::vector<u32> reads, writes;
  std::vector<u32> next;  // indices of instructions
};

// [register] -> slot, kNoSlot for one that nothing names. `count` is set to the number of slots.
std::vector<u32> share_slots(const std::vector<RegisterUse>& code, u32 registers, u32* count);

}  // namespace ptx
