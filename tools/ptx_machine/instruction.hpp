// The pre-decoded form that the machine runs: a function pointer and slots of the register file.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/ptx_machine/race.hpp"
#include "tools/ptx_machine/syntax.hpp"

namespace ptx {

struct Thread;
struct Instruction;
struct Lanes;
using Run = void (*)(Thread&, const Instruction&);
// False: nothing was done, and the lanes have to execute it one after the other.
using RunLanes = bool (*)(Lanes&, const Instruction&);

enum class Order : u8 { weak, relaxed, acquire, release, acq_rel };

inline constexpr u32 kNoSlot = ~u32{0};
inline constexpr u32 kBarriers = 16;  // of a block

// A slot is an index into the thread's register file, which also holds the
// kernel's constants and special registers, so that no operand needs a case of its own.
struct Instruction {
  Run run = nullptr;
  RunLanes run_lanes = nullptr;  // the same for many lanes at once; nullptr: one after the other
  u32 d = kNoSlot;               // destination
  u32 a = kNoSlot;               // sources, by the letters of the ISA manual
  u32 b = kNoSlot;
  u32 c = kNoSlot;
  u32 e = kNoSlot;  // a fifth operand
  u32 p = kNoSlot;  // a second destination: d|p
  u32 guard = kNoSlot;
  u64 offset = 0;             // of an address; a branch's target
  const u32* list = nullptr;  // slots of a vector operand; the targets of an indexed branch
  u8 count = 1;               // length of the vector operand
  bool guarded = false;
  bool guard_value = true;
  bool branches = false;  // goes to `offset`
  bool negate = false;    // a source predicate is written !p
  Space space = Space::generic;
  Order order = Order::weak;
  Scope scope = Scope::gpu;
  u8 mode = 0;    // what else a row's modifiers choose
  u32 width = 0;  // bytes of one element of a memory access
};

// %tid.x and its like, which live in slots of the register file.
enum class Special : u8 {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  gridid,
  dynamic_smem_size,
  total_smem_size
};

struct SpecialSlot {
  Special special;
  u32 slot;
};

struct Param {
  u32 offset;
  u32 bytes;
};

// A run of bytes of the shared window that belongs to one variable; between them lie gaps.
struct SharedVariable {
  std::string name;
  u32 offset;
  u32 bytes;
};

// An instruction that touches a register which some way through the text reads before any write:
// it runs through here, with a slot per register that says whether it was written.
struct Watch {
  Run run = nullptr;
  std::vector<u32> reads, writes;  // slots of "was written"
  std::vector<u32> guard;          // the same, of its guard
  bool guarded = false;
  bool moves =
      false;  // hands on what it reads, written or not: compilers copy what nobody will use
};

struct Kernel {
  std::string name;
  std::vector<Instruction> code;
  std::vector<std::string> text;  // one per instruction: "line 12: add.s32 …"
  std::vector<u16> rows;          // one per instruction: its row in the opcode table
  std::vector<u64> frame;         // the register file a thread starts with
  std::vector<SpecialSlot> specials;
  std::vector<Param> params;
  u32 param_bytes = 0;
  std::vector<SharedVariable> shared;
  u32 shared_bytes = 0;         // with the gaps
  u32 static_shared_bytes = 0;  // as a driver reports it
  u32 dynamic_shared_offset = 0;
  u32 local_bytes = 0;
  u32 max_threads = 1024;
  u32 required_threads = 0;
  u32 min_blocks = 0;
  u32 registers = 0;  // of the text, an upper bound of nothing real
  std::vector<std::unique_ptr<u32[]>> lists;
  std::vector<Watch> watches;  // one per instruction, if there is any
};

}  // namespace ptx
