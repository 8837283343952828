// IR text to Program. Knows ir and fmt.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>
#include <unordered_map>

#include <fmt/format.h>

#include <stepfuse/parser.hpp>

#include "ir/fp_env.hpp"
#include "ir/lexer.hpp"
#include "ir/semantics.hpp"
#include "ir/verifier.hpp"

namespace stepfuse {
namespace {

// Of the text of a decimal number that is not 0.
bool lies_below_one(std::string_view text) {
  size_t e = std::min(text.find_first_of("eE"), text.size());
  std::string_view exponent = text.substr(std::min(e + 1, text.size()));
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  double power = exponent.starts_with('-') ? -HUGE_VAL : HUGE_VAL;  // where it has too many digits
  if (exponent.empty()) power = 0;
  std::from_chars(exponent.data(), exponent.data() + exponent.size(), power);
  std::string_view digits = text.substr(0, e);
  size_t point = std::min(digits.find('.'), digits.size());
  size_t first = digits.find_first_of("123456789");
  return static_cast<double>(point) - static_cast<double>(first) + power <= 0;
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : lexer_(text, file) {}

  Program parse_program() {
    expect_word("step");
    program_.name = expect(TokenKind::at_name, "the step's @name").text;
    expect_punctuation("{");
    while (!at_punctuation("}")) parse_statement();
    lexer_.next();
    if (lexer_.peek().kind != TokenKind::end) {
      lexer_.fail(lexer_.peek().loc, "text after the step's closing '}'; a file holds one step");
    }
    return std::move(program_);
  }

 private:
  // --- tokens

  bool at_punctuation(std::string_view p) const {
    return lexer_.peek().kind == TokenKind::punctuation && lexer_.peek().text == p;
  }
  bool at_word(std::string_view w) const {
    return lexer_.peek().kind == TokenKind::word && lexer_.peek().text == w;
  }
  [[noreturn]] void fail_expected(std::string_view what) {
    const Token& t = lexer_.peek();
    std::string_view sigil = t.kind == TokenKind::at_name        ? "@"
                             : t.kind == TokenKind::percent_name ? "%"
                                                                 : "";
    lexer_.fail(t.loc,
                t.kind == TokenKind::end
                    ? fmt::format("expected {}, but the text ends here", what)
                    : fmt::format("expected {}, found '{}{}'", what, sigil, t.text.substr(0, 40)));
  }
  Token expect(TokenKind kind, std::string_view what) {
    if (lexer_.peek().kind != kind) fail_expected(what);
    return lexer_.next();
  }
  void expect_word(std::string_view w) {
    if (!at_word(w)) fail_expected(fmt::format("'{}'", w));
    lexer_.next();
  }
  void expect_punctuation(std::string_view p) {
    if (!at_punctuation(p)) fail_expected(fmt::format("'{}'", p));
    lexer_.next();
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
    const DomainInfo* domain = &info(Domain::step);
    for (const DomainInfo& d : kDomains) {
      if (!d.open.empty() && at_punctuation(d.open)) domain = &d;
    }
    type.domain = domain->domain;
    if (!domain->open.empty()) lexer_.next();
    if (lexer_.peek().kind == TokenKind::at_name) {
      Token t = lexer_.next();
      type.dtype = DType::bound;
      type.buffer = find_buffer(t);
    } else {
      type.dtype = parse_dtype();
    }
    if (!domain->close.empty()) expect_punctuation(domain->close);
    return type;
  }

  Type parse_type_after_colon() {
    expect_punctuation(":");
    return parse_type();
  }

  int find_buffer(const Token& t) { return find(buffers_, t, "buffer"); }
  int find_state(const Token& t) { return find(states_, t, "state"); }
  int find(const std::unordered_map<std::string, int>& declared, const Token& t,
           std::string_view kind) {
    auto it = declared.find(std::string(t.text));
    if (it == declared.end()) {
      lexer_.fail(t.loc, fmt::format("undefined {} @{}: declare it first", kind, t.text));
    }
    return it->second;
  }

  // --- values

  ValueId parse_operand() {
    Token t = expect(TokenKind::percent_name, "a %value");
    auto it = values_.find(t.text);
    if (it == values_.end()) {
      lexer_.fail(t.loc, fmt::format("undefined value %{}: a value must be defined above its use",
                                     t.text.substr(0, 80)));
    }
    return it->second;
  }

  void append(const Inst& inst, std::string_view name, SourceLoc loc) {
    if (!is_effect(inst.op)) {
      auto [it, inserted] = values_.emplace(name, program_.size());
      if (!inserted) lexer_.fail(loc, fmt::format("%{} is defined twice", name.substr(0, 80)));
    }
    program_.insts.push_back(inst);
    program_.names.emplace_back(name);
    program_.locs.push_back(loc);
  }

  [[noreturn]] void fail_overflow(const Token& t, DType type) {
    const DTypeInfo& row = info(type);
    std::string highest = row.has_infinity() ? "inf" : literal_text({row.highest}, type);
    lexer_.fail(t.loc, fmt::format("'{}' is beyond the numbers of type {}: write {}, or less",
                                   t.text.substr(0, 40), name(type), highest));
  }

  Bits parse_literal_word(const Token& t, DType type) {
    const char* begin = t.text.data();
    const char* end = begin + t.text.size();
    auto number = [&]<class T>(T) -> T {
      T v{};
      auto [p, ec] = std::from_chars(begin, end, v);
      if (ec == std::errc() && p == end) return v;
      if (ec == std::errc::result_out_of_range && p == end && std::is_floating_point_v<T>) {
        if (lies_below_one(t.text)) return t.text.starts_with('-') ? -T{} : T{};
        fail_overflow(t, type);
      }
      lexer_.fail(t.loc, fmt::format("'{}' is not a constant of type {}", t.text.substr(0, 40),
                                     name(type)));
    };
    switch (type) {
      case DType::boolean:
        if (t.text == "true" || t.text == "false") return Bits::of(t.text == "true");
        lexer_.fail(t.loc, "a bool constant is true or false");
      case DType::i32:
        return Bits::of(number(int32_t{}));
      case DType::i64:
        return Bits::of(number(int64_t{}));
      case DType::f64:
        return canonical_nan(Bits::of(number(double{})), type);
      case DType::f32:
        return canonical_nan(Bits::of(number(float{})), type);
      case DType::bound:
        lexer_.fail(t.loc, "a constant needs a concrete type");
      default: {
        float wide = number(float{});
        if (is_beyond(wide, type)) fail_overflow(t, type);
        return {narrow(wide, type)};
      }
    }
  }

  // `1.5`, `-inf`, `true`, or `bits(0x7fc00001)`; a constant's type follows it, so it is kept as a
  // token until then.
  struct Literal {
    Token token;
    bool raw = false;
  };
  Literal parse_literal() {
    Literal literal{expect(TokenKind::word, "a number, true or false")};
    literal.raw = literal.token.text == "bits" && at_punctuation("(");
    if (literal.raw) {
      lexer_.next();
      literal.token = expect(TokenKind::word, "a hexadecimal bit pattern");
      expect_punctuation(")");
    }
    return literal;
  }
  Bits literal_bits(const Literal& literal, DType type) {
    if (!literal.raw) return parse_literal_word(literal.token, type);
    std::string_view digits = literal.token.text;
    if (digits.starts_with("0x")) digits.remove_prefix(2);
    Bits bits;
    auto [p, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), bits.raw, 16);
    if (ec != std::errc() || p != digits.data() + digits.size()) {
      lexer_.fail(literal.token.loc, "bits(…) takes a hexadecimal number such as 0x7fc00001");
    }
    return bits;
  }

  // --- statements

  void parse_statement() {
    const Token& t = lexer_.peek();
    if (t.kind == TokenKind::percent_name) return parse_definition();
    if (t.kind == TokenKind::word) {
      if (t.text == "buffer") return parse_buffer();
      if (t.text == "state" || t.text == "report") return parse_state();
      if (t.text == "arg") return parse_arg();
      if (t.text == "stage") return parse_stage();
      if (t.text == "store" || t.text == "write") return parse_effect();
    }
    fail_expected("buffer, state, report, arg, stage, store, write, %value = … or '}'");
  }

  void parse_buffer() {
    SourceLoc loc = lexer_.next().loc;
    Buffer b;
    b.name = expect(TokenKind::at_name, "the buffer's @name").text;
    expect_punctuation(":");
    b.dtypes = parse_dtype();
    while (at_punctuation("|")) {
      lexer_.next();
      b.dtypes = b.dtypes | parse_dtype();
    }
    if (at_word("in"))
      b.access = Access::in;
    else if (at_word("out"))
      b.access = Access::out;
    else if (at_word("inout"))
      b.access = Access::inout;
    else
      fail_expected("in, out or inout");
    lexer_.next();
    if (at_punctuation("=")) parse_buffer_init(b);
    buffers_.emplace(b.name, static_cast<int>(program_.buffers.size()));
    program_.buffers.push_back(std::move(b));
    program_.buffer_locs.push_back(loc);
  }

  void parse_buffer_init(Buffer& b) {
    lexer_.next();
    if (at_word("0")) {
      lexer_.next();
      b.init = Buffer::Init::zero;
    } else {
      Token t = expect(TokenKind::at_name, "0 or the @buffer to copy");
      b.init = Buffer::Init::copy;
      b.init_from = find_buffer(t);
    }
  }

  // `= literal` of a known type; nothing if there is no '='.
  std::optional<Bits> parse_given(Type type) {
    if (!at_punctuation("=")) return std::nullopt;
    lexer_.next();
    return literal_bits(parse_literal(), type.dtype);
  }

  void parse_state() {
    State s;
    SourceLoc loc = lexer_.peek().loc;
    s.report = lexer_.next().text == "report";
    s.name = expect(TokenKind::at_name, "the state's @name").text;
    s.type = parse_type_after_colon();
    if (at_word("shared")) {
      lexer_.next();
      s.shared = true;
    }
    s.initial = parse_given(s.type).value_or(Bits{});
    states_.emplace(s.name, static_cast<int>(program_.states.size()));
    program_.states.push_back(std::move(s));
    program_.state_locs.push_back(loc);
  }

  void parse_arg() {
    SourceLoc loc = lexer_.next().loc;
    Token t = expect(TokenKind::percent_name, "the argument's %name");
    Inst inst{.op = Op::arg, .type = parse_type_after_colon()};
    inst.slot = static_cast<int32_t>(program_.args.size());
    program_.args.push_back({std::string(t.text), inst.type, parse_given(inst.type)});
    append(inst, t.text, loc);
  }

  void parse_stage() {
    SourceLoc loc = lexer_.next().loc;
    Inst inst{.op = Op::stage};
    inst.slot = static_cast<int32_t>(program_.stages.size());
    program_.stages.emplace_back(expect(TokenKind::word, "the stage's name").text);
    append(inst, "", loc);
  }

  void parse_effect() {
    Token op = lexer_.next();
    Inst inst{.op = *op_from_name(op.text)};
    Token t = expect(TokenKind::at_name, "the @name to write to");
    bool store = inst.op == Op::store;
    inst.slot = store ? find_buffer(t) : find_state(t);
    expect_punctuation(",");
    inst.operands[0] = parse_operand();
    inst.type = program_[inst.operands[0]].type;
    if (at_word("if")) {
      lexer_.next();
      inst.predicate = parse_operand();
    }
    append(inst, "", op.loc);
  }

  void parse_definition() {
    Token result = lexer_.next();
    expect_punctuation("=");
    Token word = expect(TokenKind::word, "an op");
    auto op = op_from_name(word.text);
    if (!op || is_effect(*op) || *op == Op::arg) {
      lexer_.fail(word.loc, fmt::format("unknown op '{}': ir/README.md lists the ops",
                                        word.text.substr(0, 40)));
    }
    Inst inst{.op = *op};
    if (*op == Op::constant) {
      Literal literal = parse_literal();
      inst.type = parse_type_after_colon();
      inst.literal = literal_bits(literal, inst.type.dtype);
    } else {
      if (*op == Op::load || *op == Op::read) {
        Token t = expect(TokenKind::at_name, *op == Op::load ? "a @buffer" : "a @state");
        inst.slot = *op == Op::load ? find_buffer(t) : find_state(t);
      }
      for (int i = 0; i < inst.arity(); ++i) {
        if (i > 0) expect_punctuation(",");
        inst.operands[static_cast<size_t>(i)] = parse_operand();
      }
      inst.type = parse_type_after_colon();
    }
    append(inst, result.text, result.loc);
  }

  Lexer lexer_;
  Program program_;
  std::unordered_map<std::string_view, ValueId> values_;
  std::unordered_map<std::string, int> buffers_;  // the first of each name
  std::unordered_map<std::string, int> states_;
};

}  // namespace

Program parse_unverified(std::string_view text, std::string_view file) {
  FpEnvGuard guard;  // literals are the nearest value, whatever the caller's rounding mode
  return Parser(text, file).parse_program();
}

Program parse(std::string_view text, std::string_view file) {
  Program program = parse_unverified(text, file);
  std::string message;
  SourceLoc first;
  for (const Diagnostic& d : find_violations(program)) {
    if (message.empty())
      first = d.loc;
    else
      message += '\n';
    message += render_at(file, text, d.loc, fmt::format("{} [V{}]", d.message, d.rule));
  }
  if (!message.empty()) throw Error(ErrorKind::verify, message, first);
  return program;
}

}  // namespace stepfuse
