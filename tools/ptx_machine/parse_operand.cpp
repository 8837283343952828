// Parses one operand of an instruction; knows registers in scope, not what the opcode wants.
#include <charconv>

#include <fmt/format.h>

#include "tools/ptx_machine/parser.hpp"

namespace ptx {
namespace {

bool is_hex_float(std::string_view text) {
  return text.size() >= 2 && text[0] == '0' &&
         (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D');
}

Operand parse_real(TokenStream& in, bool negative) {
  std::string_view text = in.take().text;
  bool is_double = text[1] == 'd' || text[1] == 'D';
  std::size_t want = is_double ? 16 : 8;
  Operand result{.kind = OperandKind::real, .type = is_double ? Type::f64 : Type::f32};
  auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), result.bits, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != want + 2) {
    in.fail(fmt::format("'{}' is not a floating-point constant", text));
  }
  if (negative) result.bits ^= u64{1} << (is_double ? 63 : 31);
  return result;
}

Operand parse_number(TokenStream& in) {
  bool negative = in.peek().is("-");
  if (is_hex_float(in.peek(negative ? 1 : 0).text)) {
    if (negative) in.take();
    return parse_real(in, negative);
  }
  return {.kind = OperandKind::integer, .bits = in.integer()};
}

Operand parse_name(TokenStream& in, const Scopes& scopes) {
  std::string_view name = in.word();
  if (name == "_") return {};
  if (auto found = scopes.find(name)) return {.kind = OperandKind::reg, .reg = *found};
  if (name.starts_with('%')) return {.kind = OperandKind::special, .name = name};
  Operand result{.kind = OperandKind::symbol, .name = name};
  if (in.peek().is("+")) result.bits = in.integer();
  return result;
}

Operand parse_address(TokenStream& in, const Scopes& scopes) {
  in.expect("[");
  Operand result{.kind = OperandKind::address};
  result.parts.push_back(in.peek().kind == TokenKind::word ? parse_name(in, scopes)
                                                           : parse_number(in));
  // "[sym+8]" was taken as a symbol with an offset; "[%rd1+-8]" has two signs.
  if (result.parts[0].kind == OperandKind::symbol) std::swap(result.bits, result.parts[0].bits);
  if (in.accept("+")) {
    result.bits += in.integer();
  } else if (in.peek().is("-")) {
    result.bits += in.integer();
  }
  in.expect("]");
  return result;
}

}  // namespace

Operand parse_operand(TokenStream& in, const Scopes& scopes) {
  if (in.peek().is("[")) return parse_address(in, scopes);
  if (in.peek().is("{")) {
    in.take();
    Operand result{.kind = OperandKind::vector};
    do {
      result.parts.push_back(parse_operand(in, scopes));
    } while (in.accept(","));
    in.expect("}");
    return result;
  }
  if (in.accept("!")) {
    Operand result = parse_name(in, scopes);
    result.negated = true;
    return result;
  }
  if (in.peek().kind != TokenKind::word) return parse_number(in);
  Operand first = parse_name(in, scopes);
  if (!in.accept("|")) return first;
  Operand result{.kind = OperandKind::pair};
  result.parts.push_back(std::move(first));
  result.parts.push_back(parse_name(in, scopes));
  return result;
}

}  // namespace ptx
