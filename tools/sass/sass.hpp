// Machine code of a cubin as nvdisasm prints it (`nvdisasm -c -hex`), read into instructions. Knows the
// text's form and the control words of sm_70 and newer; needs no GPU.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::sass {

// What the hardware's scheduler obeys: bits 105 to 125 of an instruction.
struct Control {
  int stall = 0;          // cycles until the warp's next instruction may issue
  int write_barrier = 7;  // set until the result is there; 7: none
  int read_barrier = 7;   // set until the operands were read
  uint32_t waits = 0;     // one bit a barrier: until all of them are clear
};

struct Instruction {
  uint64_t address = 0;
  std::string predicate;  // "@!P0", or nothing
  std::string opcode;     // "LDG.E.128"
  std::string operands;
  int target = -1;  // of a jump within the function: the instruction's index
  Control control;

  std::string_view base() const;              // "LDG"
  bool has(std::string_view modifier) const;  // "128"
  // Of another function; ptxas also leaves loops by a "call" of a label of its own.
  bool is_call() const { return base() == "CALL" && target < 0; }
  // Of an array: those of constants are of code tables, which stay in the caches.
  bool is_global_load() const { return base() == "LDG" && !has("CONSTANT"); }
  bool is_global_store() const { return base() == "STG"; }
  // Of a load or store, per thread.
  int bytes() const;
};

struct Function {
  std::string name;
  std::vector<Instruction> code;
};

// Throws Error{usage} where the text is not such a disassembly.
std::vector<Function> parse(std::string_view text);

}  // namespace stepfuse::sass
