// The pre-decoded form that the machine runs: a function pointer and slots of the register file.
#pragma once

#include <array>
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

// A slot is the place of a row of the register file: one value for each lane of a warp. Values have
// 32 bits, or 64 if the slot is wide; a wide row takes the places of two others.
inline constexpr u32 kLanes = 32;
inline constexpr u32 kNoSlot = ~u32{0};
inline constexpr u32 kWide = u32{1} << 31;
constexpr bool is_wide(u32 slot) { return (slot & kWide) != 0; }
constexpr u32 place_of(u32 slot) { return slot & ~kWide; }
// A slot behind `rows` places, which become more.
constexpr u32 new_slot(u32& rows, bool wide) {
  u32 place = rows;
  rows += wide ? 2 : 1;
  return wide ? place | kWide : place;
}

inline constexpr u32 kBarriers = 16;  // of a block

// The register file also holds the kernel's constants and special registers, so that no operand needs
// a case of its own.
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
  // Bytes of a value that `run_lanes` expects in the slots d, a, b, c, e: 4 or 8; 0 accepts both.
  std::array<u8, 5> lane_bytes{};
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

struct FrameSlot {
  u32 slot;
  u64 value;
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

// A line of the text that the kernel was decoded from.
struct Line {
  u32 number;  // 0: it is not in the text
  std::string_view text;
};

struct Kernel {
  std::string name;
  std::shared_ptr<const std::string> source;  // what `text` points into
  std::vector<Instruction> code;
  std::vector<Line> text;        // one per instruction
  std::vector<u16> rows;         // one per instruction: its row in the opcode table
  std::vector<FrameSlot> frame;  // what a thread's slots hold when it starts
  u32 frame_rows = 0;            // places of the register file
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

  // "line 12: add.s32 …"
  std::string place(u32 pc) const {
    const Line& line = text[pc];
    std::string prefix = line.number == 0 ? "" : "line " + std::to_string(line.number) + ": ";
    return prefix.append(line.text);
  }
};

}  // namespace ptx
