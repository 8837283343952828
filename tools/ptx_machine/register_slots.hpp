// Gives a text's registers few slots: registers that are never live together share one. A compiler
// names thousands of registers, and a thread whose frame fits the cache runs twice as fast.
#pragma once

#include <vector>

#include "tools/ptx_machine/instruction.hpp"

namespace ptx {

// An instruction's effect on registers, and the instructions that may follow.
struct RegisterUse {
  std::vector<u32> reads, writes;
  bool guarded = false;   // may leave the old value of a register that it writes
  std::vector<u32> next;  // instruction indices
};

struct SharedSlots {
  std::vector<u32> of;         // [register]; kNoSlot for one that nothing names
  u32 rows = 0;                // places that the slots take
  std::vector<u32> unwritten;  // registers that some way through the text reads before any write
};
// `wide` says which registers have 64 bits.
SharedSlots share_slots(const std::vector<RegisterUse>& code, const std::vector<bool>& wide);

}  // namespace ptx
