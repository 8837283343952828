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
  const OpcodeRow& find_row(const Statement& statement, Form& form) const;
  static bool shapes_fit(const OpcodeRow& row, const Statement& statement);
  void fill(const Spec& spec, const Operand& operand, const Form& form, Instruction& i);
  void fill_vector(const Spec& spec, const Operand& operand, Type type, bool writes,
                   Instruction& i);
  u32 target_slot(const Operand& operand, Type type, bool wider);
  u32 source_slot(const Operand& operand, Type type, bool wider);
  u32 constant(u64 value);
  u32 special_slot(std::string_view name);
  u64 symbol_value(std::string_view name) const;
  u32 label(const Statement& statement, std::string_view name) const;
  void check_width(const Operand& operand, Type type, bool wider) const;
  void add_end();
  void note_next(const Statement& statement, const Instruction& i);
  void compact_frame();
  void watch(const std::vector<u32>& registers);
  [[noreturn]] void refuse(ErrorKind kind, const std::string& what) const;

  const Program& program_;
  const Function& function_;
  const SymbolTable& globals_;
  SymbolTable symbols_;
  std::map<u64, u32> constants_;
  std::map<Special, u32> specials_;
  Kernel kernel_;
  std::vector<RegisterUse> uses_;  // one per instruction
  const Statement* statement_ = nullptr;
};

}  // namespace ptx
