// The table of all opcodes that the machine knows, one row per form of the ISA manual.
#pragma once

#include <span>

#include "tools/ptx_machine/form.hpp"
#include "tools/ptx_machine/instruction.hpp"

namespace ptx {

// operands: the letters of the manual in their order, each naming the slot it fills.
//   d a b c e    registers, sources may be constants; d|p has an optional second destination
//   [a]          an address
//   D, B         a register or a vector of them, as destination or source of a memory access
//   {d}, {a}     a vector
//   L, T         a label, a table of labels
//   clock        one of the clock registers
// behind a letter: ":u32" a type that is not the instruction's last one, ":first" the first one,
// ":wide" twice its width, ":any" at least its width, "!" may be negated, "?" may be left out.
struct OpcodeRow {
  std::string_view name;
  std::string_view modifiers;
  std::string_view operands;
  Run (*select)(const Form&, Instruction&);  // the semantic function; nullptr: not this form
};

std::span<const OpcodeRow> opcode_table();

}  // namespace ptx
