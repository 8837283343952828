// Reads a cubin's machine code, as `nvdisasm -c -hex` prints it, into instructions. Knows that text
// and the control words of sm_70 and newer; needs no GPU.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::sass {

// The instruction's orders to the hardware's scheduler: bits 105 to 125.
struct Control {
  int stall = 0;          // cycles until the warp's next instruction may issue
  int write_barrier = 7;  // set until the result is available; 7 for none
  int read_barrier = 7;   // set until the operands were read; 7 for none
  uint32_t waits = 0;     // one bit per barrier: waits until all of them are clear
};

struct Instruction {
  uint64_t address = 0;
  std::string predicate;  // "@!P0", or empty
  std::string opcode;     // "LDG.E.128"
  std::string operands;
  int target = -1;  // instruction index of a jump's target in this function
  Control control;

  std::string_view base() const;              // "LDG"
  bool has(std::string_view modifier) const;  // "128"
  // Calls of other functions. ptxas also leaves loops by a "call" of a label within the function.
  bool is_call() const { return base() == "CALL" && target < 0; }
  // Loads of arrays. Loads of constants read code tables, which stay in the caches.
  bool is_global_load() const { return base() == "LDG" && !has("CONSTANT"); }
  bool is_global_store() const { return base() == "STG"; }
  // Bytes that a load or store moves per thread.
  int bytes() const;
};

struct Function {
  std::string name;
  std::vector<Instruction> code;
};

// Throws Error{usage} if the text is not such a disassembly.
std::vector<Function> parse(std::string_view text);

}  // namespace stepfuse::sass
