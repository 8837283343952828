// Decodes single operands into slots and values. Knows registers, constants and symbols.
#include <utility>

#include <fmt/format.h>

#include "tools/ptx_machine/decoder.hpp"
#include "tools/ptx_machine/error.hpp"
#include "tools/ptx_machine/semantics/control.hpp"
#include "tools/ptx_machine/special_registers.hpp"

namespace ptx {
namespace {

// True for integer types, which are neither floating-point nor untyped bits.
bool is_whole(Type type) {
  return info(type).kind == Kind::signed_int || info(type).kind == Kind::unsigned_int;
}

}  // namespace

void Decoder::refuse(ErrorKind kind, const std::string& what) const {
  throw MachineError(kind, fmt::format("{}: {}\n  at line {}: {}", function_.name, what,
                                       statement_->line, statement_->text));
}

void Decoder::check_width(const Operand& operand, Type type, bool wider) const {
  Type declared = function_.registers[operand.reg];
  bool both_pred = (declared == Type::pred) == (type == Type::pred);
  u32 have = bytes_of(declared);
  u32 want = bytes_of(type);
  bool is_real = info(declared).kind == Kind::real;
  bool wants_real = info(type).kind == Kind::real;
  bool mixed = (is_real && is_whole(type)) || (wants_real && is_whole(declared));
  if (mixed || !both_pred || (wider ? have < want : have != want)) {
    refuse(ErrorKind::bad_operand,
           fmt::format("a .{} register where a .{} belongs", info(declared).name, info(type).name));
  }
}

u32 Decoder::target_slot(const Operand& operand, Type type, bool wider) {
  if (operand.kind == OperandKind::sink) return kNoSlot;
  if (operand.kind != OperandKind::reg) {
    refuse(ErrorKind::bad_operand, "a destination must be a register");
  }
  check_width(operand, type, wider);
  uses_.back().writes.push_back(operand.reg);
  return operand.reg;
}

u32 Decoder::source_slot(const Operand& operand, Type type, bool wider) {
  switch (operand.kind) {
    case OperandKind::reg:
      check_width(operand, type, wider);
      uses_.back().reads.push_back(operand.reg);
      return operand.reg;
    case OperandKind::special:
      return special_slot(operand.name);
    case OperandKind::symbol:
      return constant(symbol_value(operand.name) + operand.bits, bytes_of(type) == 8);
    case OperandKind::integer: {
      if (info(type).kind == Kind::real) {
        refuse(ErrorKind::bad_operand, "an integer constant where a real one belongs");
      }
      if (type == Type::pred) return constant(operand.bits != 0 ? 1 : 0, false);
      u32 bits = 8 * bytes_of(type);
      if (bits >= 64) return constant(operand.bits, true);
      return constant(operand.bits & ((u64{1} << bits) - 1), false);
    }
    case OperandKind::real:
      if (bytes_of(operand.type) != bytes_of(type)) {
        refuse(ErrorKind::bad_operand, "a floating-point constant of another width");
      }
      if (is_whole(type)) {
        refuse(ErrorKind::bad_operand, "a floating-point constant where an integer belongs");
      }
      return constant(operand.bits, bytes_of(type) == 8);
    default:
      break;
  }
  refuse(ErrorKind::bad_operand, "an operand of the wrong kind");
}

u32 Decoder::add_frame_slot(u64 value, bool wide) {
  frame_.emplace_back(value, wide);
  return static_cast<u32>(function_.registers.size() + frame_.size() - 1);
}

u32 Decoder::constant(u64 value, bool wide) {
  auto [at, is_new] = constants_.try_emplace({value, wide}, kNoSlot);
  if (is_new) at->second = add_frame_slot(value, wide);
  return at->second;
}

u32 Decoder::special_slot(std::string_view name) {
  auto known = special_named(name);
  if (!known) refuse(ErrorKind::unresolved_symbol, fmt::format("unknown register '{}'", name));
  auto [at, is_new] = specials_.try_emplace(known->special, kNoSlot);
  if (is_new) {
    at->second = add_frame_slot(0, bytes_of(known->type) == 8);
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

// A body without a final `ret` returns at its end.
void Decoder::add_end() {
  Instruction end;
  for (const OpcodeRow& row : opcode_table()) {
    if (row.name == "ret") end.run = row.select({}, end);
  }
  kernel_.code.push_back(end);
  uses_.emplace_back();
  kernel_.rows.push_back(0);
  kernel_.text.push_back({0, "the end of the body"});
}

// Records the instructions that may follow. A guarded write may leave the old value, so it counts
// as a read.
void Decoder::note_next(const Statement& statement, const Instruction& i) {
  RegisterUse& use = uses_.back();
  std::string_view name = statement.opcode.substr(0, statement.opcode.find('.'));
  auto behind = static_cast<u32>(kernel_.code.size() + 1);
  use.guarded = i.guarded;
  if (name == "bra") use.next = {static_cast<u32>(i.offset)};
  if (name == "brx") use.next.assign(i.list, i.list + i.count);
  bool leaves = name == "bra" || name == "brx" || name == "ret" || name == "exit" || name == "trap";
  if (!leaves || i.guarded) use.next.push_back(behind);
}

namespace {

// Whether the slots are as wide as the instruction's function for many lanes takes them to be.
bool rows_fit(const Instruction& i) {
  const u32 slots[] = {i.d, i.a, i.b, i.c, i.e};
  for (std::size_t k = 0; k < i.lane_bytes.size(); ++k) {
    if (slots[k] == kNoSlot || i.lane_bytes[k] == 0) continue;
    if ((i.lane_bytes[k] == 8) != is_wide(slots[k])) return false;
  }
  return true;
}

}  // namespace

// The registers' slots shrink to few; constants and special registers stand behind them.
void Decoder::compact_frame() {
  std::vector<bool> wide;
  for (Type type : function_.registers) wide.push_back(bytes_of(type) == 8);
  SharedSlots shared = share_slots(uses_, wide);
  std::vector<u32> slots = shared.of;
  u32& rows = kernel_.frame_rows;
  rows = shared.rows;
  // A register's value before its first write is arbitrary.
  for (u32 place = 0; place < rows; ++place) kernel_.frame.push_back({place, 0xA5A5'A5A5u});
  for (auto [value, is_wide] : frame_) {
    slots.push_back(new_slot(rows, is_wide));
    kernel_.frame.push_back({slots.back(), value});
  }
  auto move = [&](u32& slot) {
    if (slot != kNoSlot) slot = slots[slot];
  };
  for (Instruction& i : kernel_.code) {
    for (u32* slot : {&i.d, &i.a, &i.b, &i.c, &i.e, &i.p, &i.guard}) move(*slot);
    if (!rows_fit(i)) i.run_lanes = nullptr;
  }
  for (auto [list, count] : vectors_) {
    for (u32 n = 0; n < count; ++n) move(list[n]);
  }
  for (SpecialSlot& s : kernel_.specials) move(s.slot);
  watch(shared.unwritten);
}

// Only texts with such registers pay for the check whether they were written.
void Decoder::watch(const std::vector<u32>& registers) {
  std::map<u32, u32> flags;  // register -> slot
  auto add = [&](u32 r) {
    auto [at, is_new] = flags.try_emplace(r, kernel_.frame_rows);
    if (is_new) kernel_.frame.push_back({new_slot(kernel_.frame_rows, false), 0});
    return is_new;
  };
  for (u32 r : registers) add(r);
  if (flags.empty()) return;
  auto moves = [&](u32 k) {
    std::size_t guard = kernel_.code[k].guarded ? 1 : 0;
    bool is_move = opcode_table()[kernel_.rows[k]].name == "mov";
    return is_move && uses_[k].reads.size() == guard + 1 && uses_[k].writes.size() == 1;
  };
  for (bool more = true; more;) {
    more = false;
    for (u32 k = 0; k < kernel_.code.size(); ++k) {
      if (moves(k) && flags.contains(uses_[k].reads.back())) {
        more = add(uses_[k].writes[0]) || more;
      }
    }
  }
  kernel_.watches.resize(kernel_.code.size());
  auto flags_of = [&](const std::vector<u32>& list) {
    std::vector<u32> found;
    for (u32 r : list) {
      if (auto at = flags.find(r); at != flags.end()) found.push_back(at->second);
    }
    return found;
  };
  for (u32 k = 0; k < kernel_.code.size(); ++k) {
    Instruction& i = kernel_.code[k];
    auto& reads = uses_[k].reads;
    Watch w{.guarded = i.guarded, .moves = moves(k)};
    if (i.guarded) {  // decoded before the operands
      w.guard = flags_of({reads.front()});
      reads.erase(reads.begin());
    }
    w.reads = flags_of(reads);
    w.writes = flags_of(uses_[k].writes);
    if (w.guard.empty() && w.reads.empty() && w.writes.empty()) continue;
    w.run = std::exchange(i.run, &run_watched);
    i.run_lanes = nullptr;
    i.branches = false;
    i.guarded = false;
    kernel_.watches[k] = std::move(w);
  }
}

}  // namespace ptx
