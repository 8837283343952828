// Gives the registers of a text few slots: those that are never live together share one. A compiler
// names thousands of registers; a thread whose frame fits the cache runs twice as fast.
#pragma once

#include <vector>

#include "tools/ptx_machine/instruction.hpp"

namespace ptx {

// What one instruction does to the registers, and where the thread may be next.
struct RegisterUse {
  std::vector<u32> reads, writes;
  bool guarded = false;   // it may leave what it writes as it was
  std::vector<u32> next;  // indices of instructions
};

struct SharedSlots {
  std::vector<u32> of;  // [register]; kNoSlot for one that nothing names
  u32 count = 0;
  std::vector<u32> unwritten;  // registers that some way through the text reads before any write
};
SharedSlots share_slots(const std::vector<RegisterUse>& code, u32 registers);

}  // namespace ptx
