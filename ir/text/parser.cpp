// Parses IR text to a Program. Knows ir and fmt.
#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>

#include "ir/program/verifier.hpp"
#include "ir/semantics/fp_env.hpp"
#include "ir/text/literal.hpp"
#include "ir/text/token_reader.hpp"
#include "ir/text/words.hpp"

namespace stepfuse {
namespace {

class Parser : TokenReader<Lexer> {
 public:
  Parser(std::string_view text, std::string_view file, const std::vector<Table>& tables = {})
      : TokenReader(text, file) {
    for (const Table& t : tables) declare(t, {});
  }

  Program parse_program() {
    expect_word("step");
    program_.name = expect(TokenKind::at_name, "the step's @name").text;
    expect("{");
    while (!take("}")) parse_statement();
    if (!at(TokenKind::end)) {
      fail("text after the step's closing '}'; a file holds one step");
    }
    name_literals();
    return std::move(program_);
  }

  // Returns the position of an instruction's operand, or of a different part of it.
  SourceLoc part_loc(ValueId inst, int part) const {
    return part_locs_[static_cast<size_t>(inst)][static_cast<size_t>(part)];
  }

 private:
  using PartLocs = std::array<SourceLoc, kType + 1>;

  // Report a missing part at the end of its line, not at the start of the next one.
  [[noreturn]] void fail_expected(std::string_view what) const override {
    SourceLoc end = lexer_.last_end();
    if (!at(TokenKind::end) && lexer_.peek().loc.line > end.line && end.line > 0) {
      lexer_.fail(end, fmt::format("expected {}, but the line ends here", what));
    }
    fail_found(what);
  }

  // --- types

  DType parse_dtype() {
    Token t = expect(TokenKind::word, fmt::format("a type ({})", names(kAnyDType, " ")));
    auto d = dtype_from_name(t.text);
    if (!d) {
      lexer_.fail(t.loc, fmt::format("unknown type '{}': the types are {}", t.text.substr(0, 40),
                                     names(kAnyDType, " ")));
    }
    return *d;
  }

  Type parse_type() {
    Type type;
    const NamedGranularity* granularity = &info(per::step);
    for (const NamedGranularity& d : kGranularities) {
      // Per-row, per-column and per-block types have their granularity behind the dtype.
      bool opens = !d.open.empty() && d.close.front() != '/';
      if (opens && at(d.open)) granularity = &d;
    }
    type.at = granularity->at;
    if (!granularity->open.empty()) next();
    if (at(TokenKind::at_name)) {
      Token t = next();
      type.dtype = DType::bound;
      type.buffer = find_buffer(t);
    } else {
      type.dtype = parse_dtype();
    }
    if (type.at == per::tensor && take("/")) {
      type.at = parse_part_of_tensor();
    }
    if (!granularity->close.empty()) expect(granularity->close);
    return type;
  }

  // Parses the part behind "<f32/": row, column, or a tile.
  Granularity parse_part_of_tensor() {
    for (Granularity g : {per::row, per::column}) {
      if (!at_word(info(g).name)) continue;
      next();
      return g;
    }
    return parse_tile();
  }

  // Parses how many elements share a value: 256, or 128x128.
  Granularity parse_tile() {
    Token t = expect(TokenKind::word, "how many elements share a value, as in <f32/256>");
    for (Granularity tile : kTiles) {
      if (t.text == tile_text(tile)) return tile;
    }
    lexer_.fail(t.loc, fmt::format("'{}' is neither a block nor a square: write one of {}",
                                   t.text.substr(0, 40), tile_texts()));
  }

  Type parse_type_after_colon(SourceLoc* loc = nullptr) {
    if (!take(":")) fail_expected("its type, as in ': [f32]'");
    if (loc != nullptr) *loc = lexer_.peek().loc;
    return parse_type();
  }

  int find_buffer(const Token& t, std::string_view other_op = "") {
    return find(buffers_, t, "buffer", states_, "state", other_op);
  }
  int find_state(const Token& t, std::string_view other_op) {
    return find(states_, t, "state", buffers_, "buffer", other_op);
  }
  // `other_op` is the op that does the same with the other kind of declaration.
  using Declared = std::unordered_map<std::string, int>;
  int find(const Declared& declared, const Token& t, std::string_view kind, const Declared& other,
           std::string_view other_kind, std::string_view other_op) {
    std::string wanted(t.text);
    auto it = declared.find(wanted);
    if (it != declared.end()) return it->second;
    if (!other_op.empty() && other.contains(wanted)) {
      lexer_.fail(t.loc,
                  fmt::format("@{} is a {}: use {}", wanted.substr(0, 80), other_kind, other_op));
    }
    lexer_.fail(t.loc, fmt::format("undefined {} @{}: declare it first", kind, wanted));
  }

  // --- values

  ValueId parse_value() {
    Token t = expect(TokenKind::percent_name, "a %value");
    auto it = values_.find(t.text);
    if (it == values_.end()) {
      lexer_.fail(t.loc, fmt::format("undefined value %{}: a value must be defined above its use",
                                     t.text.substr(0, 80)));
    }
    return it->second;
  }

  Literal parse_literal() {
    Literal literal{expect(TokenKind::word, "a number, true or false")};
    literal.raw = literal.token.text == "bits" && take("(");
    if (literal.raw) {
      literal.token = expect(TokenKind::word, "a hexadecimal bit pattern");
      expect(")");
    }
    return literal;
  }

  static bool begins_literal(std::string_view word) {
    return std::string_view("0123456789.+-").find(word[0]) != std::string_view::npos ||
           word == "true" || word == "false" || word == "inf" || word == "nan" || word == "bits";
  }

  // A value, or a number whose type is not known yet.
  struct Operand {
    SourceLoc loc;
    ValueId value = kNoValue;
    std::optional<Literal> literal;
  };
  Operand parse_operand() {
    const Token& t = lexer_.peek();
    if (t.kind == TokenKind::percent_name) return {t.loc, parse_value(), {}};
    bool literal = t.kind == TokenKind::word && begins_literal(t.text);
    if (!literal) fail_expected("a %value or a number");
    SourceLoc loc = t.loc;
    return {loc, kNoValue, parse_literal()};
  }

  // Returns the constant for a literal, which all literals with the same bits share. Constants get their
  // names at the end, when all names are known.
  ValueId value_of(const Operand& o, DType type) {
    if (!o.literal) return o.value;
    if (type == DType::bound) {
      lexer_.fail(o.loc, "a number needs a concrete type: cast a const");
    }
    Bits bits = literal_bits(lexer_, *o.literal, type);
    auto [it, is_new] = literals_.try_emplace({type, bits.raw}, program_.size());
    if (is_new) {
      Inst inst{.op = Op::constant, .type = {type, per::step}};
      inst.literal = bits;
      push(inst, "", o.loc);
    }
    return it->second;
  }
  void name_literals() {
    std::set<std::string> given;
    for (const auto& [what, value] : literals_) {
      const auto& [type, raw] = what;
      std::string base = fmt::format("c_{}_{}", literal_text({raw}, type), name(type));
      for (char& c : base) {
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      }
      std::string unique = base;
      for (int n = 1; values_.contains(unique) || !given.insert(unique).second; ++n) {
        unique = fmt::format("{}.{}", base, n);
      }
      program_.names[static_cast<size_t>(value)] = unique;
    }
  }

  // Returns the dtype of a literal operand: the result's, or the other operand's if the result does not
  // decide it.
  DType literal_type(const Inst& inst, size_t i, std::span<const Operand> operands) {
    switch (info(inst.op).rule) {
      case TypeRule::number:
      case TypeRule::real:
      case TypeRule::bits:
      case TypeRule::integer:
      case TypeRule::logical:
      case TypeRule::pow:
        return inst.type.dtype;
      case TypeRule::lookup:
        return DType::i32;
      case TypeRule::nearest:
        return DType::f32;
      case TypeRule::powi:
        return i == 0 ? inst.type.dtype : DType::i64;
      case TypeRule::select:
        return i == 0 ? DType::boolean : inst.type.dtype;
      case TypeRule::compare:
        for (const Operand& o : operands) {
          if (!o.literal) return program_[o.value].type.dtype;
        }
        break;
      default:
        break;
    }
    lexer_.fail(operands[i].loc,
                fmt::format("{} takes a %value here: write %c = const …", info(inst.op).name));
  }

  void append(const Inst& inst, std::string_view name, SourceLoc loc, const PartLocs& parts = {}) {
    if (!is_effect(inst.op)) {
      auto [it, inserted] = values_.emplace(name, program_.size());
      if (!inserted) lexer_.fail(loc, fmt::format("%{} is defined twice", name.substr(0, 80)));
    }
    push(inst, name, loc, parts);
  }
  void push(const Inst& inst, std::string_view name, SourceLoc loc, const PartLocs& parts = {}) {
    program_.insts.push_back(inst);
    program_.names.emplace_back(name);
    program_.locs.push_back(loc);
    part_locs_.push_back(parts);
  }

  // --- statements

  void parse_statement() {
    const Token& t = lexer_.peek();
    if (t.kind == TokenKind::percent_name) return parse_definition();
    if (t.kind == TokenKind::word) {
      if (t.text == "buffer") return parse_buffer();
      if (t.text == "state" || t.text == "report") return parse_state();
      if (t.text == "arg") return parse_arg();
      if (t.text == "table") return parse_table();
      if (t.text == "stage") return parse_stage();
      if (t.text == "store" || t.text == "write") return parse_effect();
    }
    fail_found("buffer, state, report, table, arg, stage, store, write, %value = … or '}'");
  }

  void parse_buffer() {
    SourceLoc loc = next().loc;
    Buffer b;
    b.name = expect(TokenKind::at_name, "the buffer's @name").text;
    expect(":");
    bool in_blocks = take("<");
    b.dtypes = parse_dtype();
    while (take("|")) {
      b.dtypes = b.dtypes | parse_dtype();
    }
    if (in_blocks) {
      if (!take("/")) fail_expected("how many elements share a value, as in <f32/256>");
      b.at = parse_tile();
      expect(">");
    }
    if (at_word("in"))
      b.access = Access::in;
    else if (at_word("out"))
      b.access = Access::out;
    else if (at_word("inout"))
      b.access = Access::inout;
    else
      fail_expected("in, out or inout");
    next();
    if (at_word("transposed") || at_word("swizzled")) parse_order(b);
    if (at("=")) parse_buffer_init(b);
    if (at_word("from")) b.from = parse_tensor_size();
    if (at_word("below")) b.below = parse_tensor_size();
    buffers_.emplace(b.name, static_cast<int>(program_.buffers.size()));
    program_.buffers.push_back(std::move(b));
    program_.buffer_locs.push_back(loc);
  }

  // Parses the number behind `from` or `below`.
  uint64_t parse_tensor_size() {
    next();
    Token t = expect(TokenKind::word, "how many elements a tensor has, as in 'below 4096'");
    uint64_t size = parse_number<uint64_t>(t.text).value_or(0);
    if (size != 0 && size != Buffer::kAnySize) return size;
    lexer_.fail(t.loc, fmt::format("'{}' is not a count of elements, which starts at 1",
                                   t.text.substr(0, 40)));
  }

  void parse_order(Buffer& b) {
    b.order.transposed = take_word("transposed");
    b.order.swizzled = take_word("swizzled");
    if (!take_word("of")) fail_expected("of @buffer, whose values this buffer gets");
    b.arranges = find_buffer(expect(TokenKind::at_name, "the @buffer whose values it gets"));
  }

  void parse_buffer_init(Buffer& b) {
    next();
    if (take_word("0")) {
      b.init = Buffer::Init::zero;
    } else {
      Token t = expect(TokenKind::at_name, "0 or the @buffer to copy");
      b.init = Buffer::Init::copy;
      b.init_from = find_buffer(t);
    }
  }

  // Parses `= literal` of a known type; returns nothing if there is no '='.
  std::optional<Bits> parse_given(Type type) {
    if (!take("=")) return std::nullopt;
    return literal_bits(lexer_, parse_literal(), type.dtype);
  }

  void parse_state() {
    State s;
    SourceLoc loc = lexer_.peek().loc;
    s.report = next().text == "report";
    s.name = expect(TokenKind::at_name, "the state's @name").text;
    s.type = parse_type_after_colon();
    s.shared = take_word("shared");
    s.initial = parse_given(s.type).value_or(Bits{});
    states_.emplace(s.name, static_cast<int>(program_.states.size()));
    program_.states.push_back(std::move(s));
    program_.state_locs.push_back(loc);
  }

  void parse_table() {
    Table table;
    SourceLoc loc = next().loc;
    table.name = expect(TokenKind::at_name, "the table's @name").text;
    expect(":");
    expect_word("f32");
    expect("=");
    do {
      table.values.push_back(literal_bits(lexer_, parse_literal(), DType::f32).f32());
    } while (take(","));
    declare(table, loc);
  }
  void declare(const Table& table, SourceLoc loc) {
    tables_.emplace(table.name, static_cast<int>(program_.tables.size()));
    program_.tables.push_back(table);
    program_.table_locs.push_back(loc);
  }

  void parse_arg() {
    SourceLoc loc = next().loc;
    Token t = expect(TokenKind::percent_name, "the argument's %name");
    Inst inst{.op = Op::arg, .type = parse_type_after_colon()};
    inst.slot = static_cast<int32_t>(program_.args.size());
    program_.args.push_back({std::string(t.text), inst.type, parse_given(inst.type)});
    append(inst, t.text, loc);
  }

  void parse_stage() {
    SourceLoc loc = next().loc;
    Inst inst{.op = Op::stage};
    inst.slot = static_cast<int32_t>(program_.stages.size());
    program_.stages.emplace_back(expect(TokenKind::word, "the stage's name").text);
    append(inst, "", loc);
  }

  void parse_effect() {
    Token op = next();
    Inst inst{.op = *op_from_name(op.text)};
    Token t = expect(TokenKind::at_name, "the @name to write to");
    bool store = inst.op == Op::store;
    inst.slot = store ? find_buffer(t, "write") : find_state(t, "store");
    expect(",");
    Operand value = parse_operand();
    inst.operands[0] = value_of(value, held_in(inst));
    inst.type = program_[inst.operands[0]].type;
    PartLocs parts{value.loc};
    if (take_word("if")) {
      parts[kPredicate] = lexer_.peek().loc;
      inst.predicate = parse_value();
    }
    append(inst, "", op.loc, parts);
  }

  DType held_in(const Inst& effect) const {
    auto slot = static_cast<size_t>(effect.slot);
    if (effect.op == Op::write) return program_.states[slot].type.dtype;
    DTypeSet types = program_.buffers[slot].dtypes;
    return types.size() == 1 ? types.only() : DType::bound;
  }

  void parse_definition() {
    Token result = next();
    expect("=");
    Token word = expect(TokenKind::word, "an op");
    auto op = op_from_name(word.text);
    if (!op || is_effect(*op) || *op == Op::arg) {
      lexer_.fail(word.loc, fmt::format("unknown op '{}': ir/README.md lists the ops",
                                        word.text.substr(0, 40)));
    }
    Inst inst{.op = *op};
    PartLocs parts;
    if (*op == Op::constant) {
      Literal literal = parse_literal();
      inst.type = parse_type_after_colon(&parts[kType]);
      inst.literal = literal_bits(lexer_, literal, inst.type.dtype);
    } else {
      if (*op == Op::load || *op == Op::read) {
        Token t = expect(TokenKind::at_name, *op == Op::load ? "a @buffer" : "a @state");
        inst.slot = *op == Op::load ? find_buffer(t, "read") : find_state(t, "load");
      }
      if (reads_table(*op)) {
        inst.slot = find(tables_, expect(TokenKind::at_name, "a @table"), "table", {}, "", "");
        expect(",");
      }
      std::vector<Operand> operands;
      for (int i = 0; i < inst.arity(); ++i) {
        if (i > 0) expect(",");
        operands.push_back(parse_operand());
      }
      inst.type = parse_type_after_colon(&parts[kType]);
      for (size_t i = 0; i < operands.size(); ++i) {
        const Operand& o = operands[i];
        inst.operands[i] = o.literal ? value_of(o, literal_type(inst, i, operands)) : o.value;
        parts[i] = o.loc;
      }
    }
    append(inst, result.text, result.loc, parts);
  }

  Program program_;
  std::vector<PartLocs> part_locs_;  // [instruction]
  std::map<std::pair<DType, uint64_t>, ValueId> literals_;
  std::unordered_map<std::string_view, ValueId> values_;
  std::unordered_map<std::string, int> buffers_;  // the first declaration of each name
  std::unordered_map<std::string, int> states_;
  std::unordered_map<std::string, int> tables_;
};

}  // namespace

Program parse_unverified(std::string_view text, std::string_view file) {
  FpEnvGuard guard;  // literals are rounded to nearest in any rounding mode of the caller
  return Parser(text, file).parse_program();
}

Program parse(std::string_view text, std::string_view file, const std::vector<Table>& tables) {
  Parser parser(text, file, tables);
  Program program;
  {
    FpEnvGuard guard;
    program = parser.parse_program();
  }
  std::string message;
  SourceLoc first;
  for (const Diagnostic& d : find_violations(program)) {
    SourceLoc loc = d.loc;
    if (d.part != kWhole) loc = parser.part_loc(d.inst, d.part);
    if (message.empty())
      first = loc;
    else
      message += '\n';
    message += render_at(file, text, loc, fmt::format("{} [V{}]", d.message, d.rule));
  }
  if (!message.empty()) throw Error(ErrorKind::verify, message, first);
  return program;
}

}  // namespace stepfuse
