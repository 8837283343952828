// Decodes one entry; knows the table's operand letters, no semantics.
#include "tools/ptx_machine/decoder.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tools/ptx_machine/address.hpp"
#include "tools/ptx_machine/error.hpp"
#include "tools/ptx_machine/needs.hpp"
#include "tools/ptx_machine/special_registers.hpp"

namespace ptx {
namespace {

constexpr u32 kMaxStaticShared = 48 * 1024;

}  // namespace

// One letter of a row's operands.
struct Decoder::Spec {
  std::string_view letter;
  std::string_view type;
  bool may_negate = false;
  bool optional = false;

  static std::vector<Spec> list(std::string_view operands) {
    std::vector<Spec> specs;
    while (!operands.empty()) {
      std::size_t end = operands.find(' ');
      std::string_view word = operands.substr(0, end);
      operands = end == std::string_view::npos ? std::string_view{} : operands.substr(end + 1);
      Spec spec;
      if (word.ends_with('?')) spec.optional = true, word.remove_suffix(1);
      if (word.ends_with('!')) spec.may_negate = true, word.remove_suffix(1);
      std::size_t colon = word.find(':');
      spec.letter = word.substr(0, colon);
      if (colon != std::string_view::npos) spec.type = word.substr(colon + 1);
      specs.push_back(spec);
    }
    return specs;
  }

  bool writes() const { return letter == "d" || letter == "d|p"; }
  bool wider() const { return type == "any"; }

  Type resolve(const Form& form) const {
    if (type == "first") return form.first;
    if (type == "any") return letter == "d" ? form.first : form.type;
    if (type == "wide") {
      switch (form.type) {
        case Type::u16:
          return Type::u32;
        case Type::s16:
          return Type::s32;
        case Type::u32:
          return Type::u64;
        default:
          return Type::s64;
      }
    }
    return type.empty() ? form.type : type_named(type).value();
  }

  bool fits(const Operand& operand) const {
    bool is_clock_register = operand.kind == OperandKind::special && is_clock(operand.name);
    if (letter == "clock") return is_clock_register;
    if (letter == "[a]") return operand.kind == OperandKind::address;
    if (letter == "{a}" || letter == "{d}") return operand.kind == OperandKind::vector;
    if (letter == "D" || letter == "B") return operand.kind != OperandKind::address;
    if (letter == "L" || letter == "T") return operand.kind == OperandKind::symbol;
    if (letter == "d|p" && operand.kind == OperandKind::pair) return true;
    return operand.kind != OperandKind::vector && operand.kind != OperandKind::address &&
           operand.kind != OperandKind::pair && !is_clock_register;
  }
};

Decoder::Decoder(const Program& program, const Function& function, const SymbolTable& globals)
    : program_(program), function_(function), globals_(globals) {}

Kernel Decoder::run() {
  kernel_.name = function_.name;
  kernel_.max_threads = function_.max_threads;
  kernel_.required_threads = function_.required_threads;
  kernel_.min_blocks = function_.min_blocks;
  kernel_.registers = static_cast<u32>(function_.registers.size());
  place_variables();
  for (const Statement& statement : function_.statements) decode(statement);
  add_end();
  compact_frame();
  return std::move(kernel_);
}

void Decoder::place_variables() {
  auto aligned = [](u32 at, u32 align) { return (at + align - 1) / align * align; };
  for (const Variable& p : function_.params) {
    u32 offset = aligned(kernel_.param_bytes, p.align);
    kernel_.params.push_back({offset, static_cast<u32>(p.bytes)});
    symbols_[p.name] = offset;
    kernel_.param_bytes = offset + static_cast<u32>(p.bytes);
  }
  // Gaps between the shared variables reveal accesses beyond the end of one.
  kernel_.shared_bytes = kSharedStart;
  u32 dynamic_align = 16;
  auto add_shared = [&](const Variable& v) {
    u32 offset = aligned(kernel_.shared_bytes, std::max(v.align, 16u));
    auto bytes = static_cast<u32>(v.bytes);
    kernel_.shared.push_back({v.name, offset, bytes});
    symbols_[v.name] = offset;
    kernel_.shared_bytes = offset + bytes + kSharedGap;
    kernel_.static_shared_bytes = aligned(kernel_.static_shared_bytes, v.align) + bytes;
  };
  for (const Variable& v : function_.variables) {
    if (v.space == Space::shared) {
      add_shared(v);
    } else {
      u32 offset = aligned(kernel_.local_bytes, v.align);
      symbols_[v.name] = offset;
      kernel_.local_bytes = offset + static_cast<u32>(v.bytes);
    }
  }
  for (const Variable& v : program_.variables) {
    if (v.space == Space::shared && !v.is_extern) add_shared(v);
    if (v.is_extern) dynamic_align = std::max(dynamic_align, v.align);
  }
  if (kernel_.static_shared_bytes > kMaxStaticShared) {
    throw MachineError(ErrorKind::bad_operand,
                       fmt::format("{}: {} bytes of static shared memory, at most {} are allowed",
                                   kernel_.name, kernel_.static_shared_bytes, kMaxStaticShared));
  }
  kernel_.dynamic_shared_offset = aligned(kernel_.shared_bytes, dynamic_align);
  for (const Variable& v : program_.variables) {
    if (v.space == Space::shared && v.is_extern) symbols_[v.name] = kernel_.dynamic_shared_offset;
  }
}

const std::vector<Decoder::Spec>& Decoder::specs_of(const OpcodeRow& row) {
  static const std::vector<std::vector<Spec>> all = [] {
    std::vector<std::vector<Spec>> lists;
    for (const OpcodeRow& r : opcode_table()) lists.push_back(Spec::list(r.operands));
    return lists;
  }();
  return all[static_cast<std::size_t>(&row - opcode_table().data())];
}

bool Decoder::shapes_fit(const OpcodeRow& row, const Statement& statement) {
  const std::vector<Spec>& specs = specs_of(row);
  std::size_t needed = specs.size();
  while (needed > 0 && specs[needed - 1].optional) --needed;
  if (statement.operands.size() < needed || statement.operands.size() > specs.size()) return false;
  for (std::size_t k = 0; k < statement.operands.size(); ++k) {
    if (!specs[k].fits(statement.operands[k])) return false;
  }
  return true;
}

// A text has thousands of statements and some dozens of opcodes.
const Decoder::Opcode& Decoder::find_opcode(std::string_view text) {
  auto [at, is_new] = opcodes_.try_emplace(text);
  if (!is_new) return at->second;
  std::size_t dot = text.find('.');
  std::string_view name = text.substr(0, dot);
  std::string_view modifiers = dot == std::string_view::npos ? "" : text.substr(dot + 1);
  for (const OpcodeRow& row : opcode_table()) {
    if (row.name != name) continue;
    at->second.known = true;
    if (auto form = match_form(row.modifiers, modifiers)) {
      at->second.candidates.push_back({&row, *form, lacking(program_, name, *form)});
    }
  }
  return at->second;
}

const Decoder::Candidate& Decoder::find_row(const Statement& statement) {
  std::string_view opcode = statement.opcode;
  const Opcode& found = find_opcode(opcode);
  for (const Candidate& candidate : found.candidates) {
    if (!shapes_fit(*candidate.row, statement)) continue;
    if (!candidate.lacks.empty()) {
      refuse(ErrorKind::unknown_modifier, fmt::format("'{}' {}", opcode, candidate.lacks));
    }
    return candidate;
  }
  std::string_view name = opcode.substr(0, opcode.find('.'));
  std::string_view modifiers = opcode.substr(std::min(opcode.size(), name.size() + 1));
  if (!found.known) refuse(ErrorKind::unknown_opcode, fmt::format("unknown opcode '{}'", name));
  if (found.candidates.empty()) {
    refuse(ErrorKind::unknown_modifier,
           fmt::format("opcode '{}' has no form with the modifiers '.{}'", name, modifiers));
  }
  refuse(ErrorKind::bad_operand, fmt::format("no form of '{}' takes these operands", opcode));
}

void Decoder::decode(const Statement& statement) {
  statement_ = &statement;
  const Candidate& found = find_row(statement);
  const OpcodeRow& row = *found.row;
  const Form& form = found.form;
  Instruction i;
  uses_.emplace_back();
  if (statement.guard) {
    check_width(*statement.guard, Type::pred, false);
    i.guarded = true;
    i.guard = statement.guard->reg;
    uses_.back().reads.push_back(i.guard);
    i.guard_value = !statement.guard->negated;
  }
  const std::vector<Spec>& specs = specs_of(row);
  for (std::size_t k = 0; k < statement.operands.size(); ++k) {
    fill(specs[k], statement.operands[k], form, i);
  }
  // "v4" must match the operand's element count; a combining setp needs its third source.
  u32 length = form.has("v2") ? 2 : form.has("v4") ? 4 : form.has("v8") ? 8 : 0;
  bool is_access = row.operands.find("[a]") != std::string_view::npos;
  if (is_access && length != (i.list == nullptr ? 0 : i.count)) {
    refuse(ErrorKind::bad_operand, "the vector's length is not that of the modifier");
  }
  if (is_access && i.count * bytes_of(form.type) > 32) {
    refuse(ErrorKind::bad_operand, "an access of more than 32 bytes");
  }
  if (row.name == "barrier" || (row.name == "bar" && !form.has("warp"))) {
    const Operand& number = statement.operands[row.operands[0] == 'd' ? 1 : 0];
    if (number.kind == OperandKind::integer && number.bits >= kBarriers) {
      refuse(ErrorKind::bad_operand, fmt::format("there is no barrier {}", number.bits));
    }
  }
  i.run = row.select(form, i);
  if (row.name == "setp" && (i.mode != 0) != (i.c != kNoSlot)) {
    refuse(ErrorKind::bad_operand, "a third source needs .and, .or or .xor, and these need it");
  }
  if (i.run == nullptr) {
    refuse(ErrorKind::unknown_modifier,
           fmt::format("opcode '{}' has no such form", statement.opcode));
  }
  note_next(statement, i);
  kernel_.code.push_back(i);
  kernel_.rows.push_back(static_cast<u16>(&row - opcode_table().data()));
  kernel_.text.push_back({statement.line, statement.text});
}

void Decoder::fill(const Spec& spec, const Operand& operand, const Form& form, Instruction& i) {
  if (operand.negated) {
    if (!spec.may_negate) refuse(ErrorKind::bad_operand, "an operand may not be negated here");
    i.negate = true;
  }
  if (spec.letter == "clock") return;
  if (spec.letter == "L") {
    i.offset = label(*statement_, operand.name);
    return;
  }
  if (spec.letter == "T") {
    for (u32 scope = statement_->scope;; scope = function_.scope_parents[scope]) {
      auto at = function_.branch_tables.find({scope, std::string(operand.name)});
      if (at != function_.branch_tables.end()) {
        if (at->second.size() > 255) refuse(ErrorKind::bad_operand, "more than 255 branch targets");
        i.count = static_cast<u8>(at->second.size());
        kernel_.lists.push_back(std::make_unique<u32[]>(i.count));
        for (u32 k = 0; k < i.count; ++k)
          kernel_.lists.back()[k] = label(*statement_, at->second[k]);
        i.list = kernel_.lists.back().get();
        return;
      }
      if (scope == 0) break;
    }
    refuse(ErrorKind::unresolved_symbol, fmt::format("no branch table '{}'", operand.name));
  }
  if (spec.letter == "[a]") {
    const Operand& base = operand.parts[0];
    i.a = source_slot(base, Type::u64, true);
    i.offset = operand.bits;
    return;
  }
  Type type = spec.resolve(form);
  if (spec.letter == "{d}" || spec.letter == "{a}") {
    u32 part = bytes_of(type) / static_cast<u32>(operand.parts.size());
    Type part_type = part == 4   ? Type::b32
                     : part == 2 ? Type::b16
                     : part == 1 ? Type::b8
                                 : Type::none;
    fill_vector(spec, operand, part_type, spec.letter == "{d}", i);
    return;
  }
  if ((spec.letter == "D" || spec.letter == "B") && operand.kind == OperandKind::vector) {
    fill_vector(spec, operand, type, spec.letter == "D", i);
    return;
  }
  if (spec.letter == "d|p") {
    bool is_pair = operand.kind == OperandKind::pair;
    i.d = target_slot(is_pair ? operand.parts[0] : operand, type, false);
    if (is_pair) i.p = target_slot(operand.parts[1], Type::pred, false);
    return;
  }
  if (spec.letter == "d" || spec.letter == "D") {
    i.d = target_slot(operand, type, spec.wider());
    if (i.d == kNoSlot) refuse(ErrorKind::bad_operand, "the destination may not be '_' here");
    return;
  }
  u32 slot = source_slot(operand, type, spec.wider());
  switch (spec.letter[0]) {
    case 'a':
      i.a = slot;
      break;
    case 'c':
      i.c = slot;
      break;
    case 'e':
      i.e = slot;
      break;
    default:
      i.b = slot;
      break;  // b, B
  }
}

void Decoder::fill_vector(const Spec& spec, const Operand& operand, Type type, bool writes,
                          Instruction& i) {
  i.count = static_cast<u8>(operand.parts.size());
  kernel_.lists.push_back(std::make_unique<u32[]>(i.count));
  u32* list = kernel_.lists.back().get();
  vectors_.emplace_back(list, i.count);
  for (u32 k = 0; k < i.count; ++k) {
    list[k] = writes ? target_slot(operand.parts[k], type, spec.wider())
                     : source_slot(operand.parts[k], type, spec.wider());
  }
  i.list = list;
}

}  // namespace ptx
