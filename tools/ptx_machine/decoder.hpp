// Decodes parsed text: picks each statement's table row and fills its slots.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/ptx_machine/error.hpp"
#include "tools/ptx_machine/instruction.hpp"
#include "tools/ptx_machine/opcode_table.hpp"
#include "tools/ptx_machine/register_slots.hpp"
#include "tools/ptx_machine/syntax.hpp"

namespace ptx {

// Addresses of a module's variables, by name.
using SymbolTable = std::map<std::string, u64, std::less<>>;

class Decoder {
 public:
  Decoder(const Program& program, const Function& function, const SymbolTable& globals);
  Kernel run();

 private:
  struct Spec;

  void place_variables();
  void decode(const Statement& statement);
  // A row that takes an opcode with these modifiers.
  struct Candidate {
    const OpcodeRow* row;
    Form form;
    std::string lacks;  // the features that the module lacks for it
  };
  // All rows of an opcode as it is written.
  struct Opcode {
    bool known = false;  // some row has its name
    std::vector<Candidate> candidates;
  };
  static const std::vector<Spec>& specs_of(const OpcodeRow& row);
  const Opcode& find_opcode(std::string_view text);
  const Candidate& find_row(const Statement& statement);
  static bool shapes_fit(const OpcodeRow& row, const Statement& statement);
  void fill(const Spec& spec, const Operand& operand, const Form& form, Instruction& i);
  void fill_vector(const Spec& spec, const Operand& operand, Type type, bool writes,
                   Instruction& i);
  u32 target_slot(const Operand& operand, Type type, bool wider);
  u32 source_slot(const Operand& operand, Type type, bool wider);
  u32 constant(u64 value, bool wide);
  u32 special_slot(std::string_view name);
  u64 symbol_value(std::string_view name) const;
  u32 label(const Statement& statement, std::string_view name) const;
  void check_width(const Operand& operand, Type type, bool wider) const;
  void add_end();
  void note_next(const Statement& statement, const Instruction& i);
  u32 add_frame_slot(u64 value, bool wide);
  void compact_frame();
  void watch(const std::vector<u32>& registers);
  [[noreturn]] void refuse(ErrorKind kind, const std::string& what) const;

  const Program& program_;
  const Function& function_;
  const SymbolTable& globals_;
  SymbolTable symbols_;
  std::map<std::pair<u64, bool>, u32> constants_;
  std::map<Special, u32> specials_;
  Kernel kernel_;
  std::map<std::string_view, Opcode> opcodes_;  // the ones that occurred so far
  std::vector<std::pair<u32*, u32>> vectors_;   // lists of slots, and their lengths
  std::vector<RegisterUse> uses_;               // one per instruction
  // The slots behind the registers until compact_frame() runs.
  std::vector<std::pair<u64, bool>> frame_;  // the value, and whether the slot is wide
  const Statement* statement_ = nullptr;
};

}  // namespace ptx
