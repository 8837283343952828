// Slots and values of single operands; knows registers, constants and symbols.
#include <fmt/format.h>

#include "tests/ptx_machine/decoder.hpp"
#include "tests/ptx_machine/error.hpp"
#include "tests/ptx_machine/special_registers.hpp"

namespace stepfuse::ptx {

void Decoder::refuse(ErrorKind kind, const std::string& what) const {
  throw MachineError(kind, fmt::format("{}: {}\n  at line {}: {}", function_.name, what,
                                       statement_->line, statement_->text));
}

void Decoder::check_width(const Operand& operand, Type type, bool wider) const {
  Type declared = function_.registers[operand.reg];
  bool both_pred = (declared == Type::pred) == (type == Type::pred);
  u32 have = bytes_of(declared);
  u32 want = bytes_of(type);
  if (!both_pred || (wider ? have < want : have != want)) {
    refuse(ErrorKind::bad_operand,
           fmt::format("a .{} register where a .{} belongs", info(declared).name, info(type).name));
  }
}

u32 Decoder::target_slot(const Operand& operand, Type type, bool wider) const {
  if (operand.kind == OperandKind::sink) return kNoSlot;
  if (operand.kind != OperandKind::reg) {
    refuse(ErrorKind::bad_operand, "a destination must be a register");
  }
  check_width(operand, type, wider);
  return operand.reg;
}

u32 Decoder::source_slot(const Operand& operand, Type type, bool wider) {
  switch (operand.kind) {
    case OperandKind::reg:
      check_width(operand, type, wider);
      return operand.reg;
    case OperandKind::special:
      return special_slot(operand.name);
    case OperandKind::symbol:
      return constant(symbol_value(operand.name) + operand.bits);
    case OperandKind::integer: {
      if (info(type).kind == Kind::real) {
        refuse(ErrorKind::bad_operand, "an integer constant where a real one belongs");
      }
      if (type == Type::pred) return constant(operand.bits != 0 ? 1 : 0);
      u32 bits = 8 * bytes_of(type);
      return constant(bits >= 64 ? operand.bits : operand.bits & ((u64{1} << bits) - 1));
    }
    case OperandKind::real:
      if (bytes_of(operand.type) != bytes_of(type)) {
        refuse(ErrorKind::bad_operand, "a floating-point constant of another width");
      }
      return constant(operand.bits);
    default:
      break;
  }
  refuse(ErrorKind::bad_operand, "an operand of the wrong kind");
}

u32 Decoder::constant(u64 value) {
  auto [at, is_new] = constants_.try_emplace(value, static_cast<u32>(kernel_.frame.size()));
  if (is_new) kernel_.frame.push_back(value);
  return at->second;
}

u32 Decoder::special_slot(std::string_view name) {
  auto known = special_named(name);
  if (!known) refuse(ErrorKind::unresolved_symbol, fmt::format("unknown register '{}'", name));
  auto [at, is_new] = specials_.try_emplace(known->special, static_cast<u32>(kernel_.frame.size()));
  if (is_new) {
    kernel_.frame.push_back(0);
    kernel_.specials.push_back({known->special, at->second});
  }
  return at->second;
}

u64 Decoder::symbol_value(std::string_view name) const {
  if (auto at = symbols_.find(name); at != symbols_.end()) return at->second;
  if (auto at = globals_.find(name); at != globals_.end()) return at->second;
  refuse(ErrorKind::unresolved_symbol, fmt::format("nothing declares '{}'", name));
}

u32 Decoder::label(const Statement& statement, std::string_view name) const {
  for (u32 scope = statement.scope;; scope = function_.scope_parents[scope]) {
    auto at = function_.labels.find({scope, std::string(name)});
    if (at != function_.labels.end()) return at->second;
    if (scope == 0) break;
  }
  refuse(ErrorKind::unresolved_symbol, fmt::format("no label '{}'", name));
}

// A body that runs over its end returns.
void Decoder::add_end() {
  Instruction end;
  for (const OpcodeRow& row : opcode_table()) {
    if (row.name == "ret") end.run = row.select({}, end);
  }
  kernel_.code.push_back(end);
  kernel_.rows.push_back(0);
  kernel_.text.emplace_back("the end of the body");
}

}  // namespace stepfuse::ptx
