// Types, literals and ops as C expressions over the prelude. Knows ir's types and ops, and fmt.
#include "compiler/c/ops.hpp"

#include <cmath>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

namespace stepfuse::c {

std::string value_type(DType t) { return t == DType::boolean ? "bool" : memory_type(t); }

std::string memory_type(DType t) {
  if (t == DType::f32) return "float";
  if (t == DType::f64) return "double";
  return fmt::format("{}int{}_t", info(t).kind == DTypeKind::integer ? "" : "u", 8 * size_of(t));
}

namespace {
// So that it may follow a minus.
std::string signed_literal(const std::string& text) {
  return text[0] == '-' ? "(" + text + ")" : text;
}
}  // namespace

std::string literal(Bits v, DType t) {
  if (is_low_precision(t)) return fmt::format("0x{:0{}x}", v.raw, 2 * size_of(t));
  if (is_narrow_integer(t)) return signed_literal(literal_text(v, t));
  bool wide = t == DType::f64;
  switch (t) {
    case DType::i32:
      return v.i32() == INT32_MIN ? "INT32_MIN" : signed_literal(fmt::format("{}", v.i32()));
    case DType::i64:
      return v.i64() == INT64_MIN ? "INT64_MIN" : fmt::format("INT64_C({})", v.i64());
    case DType::f32:
    case DType::f64: {
      bool finite = wide ? std::isfinite(v.f64()) : std::isfinite(v.f32());
      if (!finite && wide) return fmt::format("sf_double(0x{:016x}ull)", v.raw);
      if (!finite) return fmt::format("sf_float(0x{:08x}u)", v.raw);
      std::string text = literal_text(v, t);
      if (text.find_first_of(".e") == std::string::npos) text += ".0";
      return signed_literal(text + (wide ? "" : "f"));
    }
    default:
      return v.b() ? "true" : "false";
  }
}

bool is_native(Op op, DType in, DType) {
  switch (op) {
    case Op::gt:
    case Op::ne:
      return true;
    case Op::rint:
    case Op::floor:
      return is_float(in);
    default:
      return false;
  }
}

namespace {

std::string cast_expression(DType from, DType to, const std::string& a) {
  if (from == to) return a;
  return fmt::format("({}){}", value_type(to), a);
}

// Their bits as they are.
std::string bitcast_expression(DType from, DType to, const std::string& a) {
  if (is_low_precision(from) || is_low_precision(to)) {
    return fmt::format("({}){}", value_type(to), a);
  }
  return fmt::format("sf_{}_of_{}_bits({})", name(to), name(from), a);
}

}  // namespace

std::string expression(Op op, DType in, DType out, const std::string& a, const std::string& b,
                       const std::string& c, const plan::Expansion* within) {
  const plan::Expansion* expansion = plan::expansion_of(op, in, out, within, is_native);
  if (expansion != nullptr) return plan::call_text(*expansion, a, b, c);
  bool real = is_float(in);
  std::string_view f = in == DType::f32 ? "f" : "";  // of the C library's functions
  auto infix = [&](std::string_view symbol) { return fmt::format("{} {} {}", a, symbol, b); };
  auto call = [&] { return fmt::format("sf_{}_{}({}, {})", info(op).name, name(in), a, b); };
  switch (op) {
    case Op::cast:
      return cast_expression(in, out, a);
    case Op::bitcast:
      return bitcast_expression(in, out, a);
    case Op::neg:
      return real ? fmt::format("-{}", a) : fmt::format("sf_sub_{}(0, {})", name(in), a);
    case Op::abs:
      return real ? fmt::format("fabs{}({})", f, a) : fmt::format("sf_abs_{}({})", name(in), a);
    case Op::sqrt:
      return fmt::format("sqrt{}({})", f, a);
    case Op::rint:
      return fmt::format("nearbyint{}({})", f, a);
    case Op::floor:
      return fmt::format("floor{}({})", f, a);
    case Op::rcp:
      return fmt::format("1 / {}", a);
    case Op::isfinite:
      return fmt::format("isfinite({}) != 0", a);
    case Op::add:
      return real ? infix("+") : call();
    case Op::sub:
      return real ? infix("-") : call();
    case Op::mul:
      return real ? infix("*") : call();
    case Op::div:
      return infix("/");
    case Op::min:
    case Op::max:
    case Op::powi:
      return call();
    case Op::fma:
      return fmt::format("fma{}({}, {}, {})", f, a, b, c);
    case Op::lt:
      return infix("<");
    case Op::le:
      return infix("<=");
    case Op::gt:
      return infix(">");
    case Op::eq:
      return infix("==");
    case Op::ne:
      return infix("!=");
    case Op::shl:
    case Op::shr:
      return call();
    case Op::logical_not:
      return fmt::format("!{}", a);
    case Op::bit_and:
      return infix(in == DType::boolean ? "&&" : "&");
    case Op::bit_or:
      return infix(in == DType::boolean ? "||" : "|");
    case Op::bit_xor:
      return infix("^");
    case Op::select:
      return fmt::format("{} ? {} : {}", a, b, c);
    default:
      internal_error(fmt::format("no C expression for op {}", info(op).name));
  }
}

std::string function(const plan::Expansion& e) {
  return plan::function_text(e, {"static inline", value_type, literal, expression});
}

}  // namespace stepfuse::c
