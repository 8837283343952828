// Writes types, literals and ops as C expressions over the prelude. Knows ir's types and ops, and fmt.
#include "compiler/c/ops.hpp"

#include <cmath>

#include <fmt/format.h>

#include "compiler/spelling.hpp"

namespace stepfuse::c {

std::string value_type(DType t) { return t == DType::boolean ? "bool" : memory_type(t); }

std::string memory_type(DType t) {
  if (t == DType::f32) return "float";
  if (t == DType::f64) return "double";
  return fmt::format("{}int{}_t", info(t).kind == DTypeKind::integer ? "" : "u", 8 * size_of(t));
}

namespace {
// Parenthesises a negative literal, so that it may follow a minus.
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

constexpr Spelling kSpellings[] = {
    {Op::present, "(tensor->flags & SF_PRESENT) != 0"},
    {Op::tensor_index, "(int32_t)tensor_index"},
    {Op::element_count, "(int64_t)tensor->full_size"},
    {Op::column_count, "(int64_t)tensor->columns"},
    {Op::element_index, "(int32_t)(uint32_t)(tensor->offset + chunk->begin + i)"},
    {Op::random, "sf_random({a}, {b}, {c}, tensor->id, tensor->offset + chunk->begin + i)"},
    {Op::neg, "-{a}", "sf_sub_{n}(0, {a})"},
    {Op::abs, "fabs{f}({a})", "sf_abs_{n}({a})"},
    {Op::sqrt, "sqrt{f}({a})"},
    {Op::rint, "nearbyint{f}({a})"},
    {Op::floor, "floor{f}({a})"},
    {Op::rcp, "1 / {a}"},
    {Op::isfinite, "isfinite({a}) != 0"},
    {Op::add, "{a} + {b}", "sf_add_{n}({a}, {b})"},
    {Op::sub, "{a} - {b}", "sf_sub_{n}({a}, {b})"},
    {Op::mul, "{a} * {b}", "sf_mul_{n}({a}, {b})"},
    {Op::div, "{a} / {b}"},
    {Op::min, "sf_min_{n}({a}, {b})"},
    {Op::max, "sf_max_{n}({a}, {b})"},
    {Op::powi, "sf_powi_{n}({a}, {b})"},
    {Op::fma, "fma{f}({a}, {b}, {c})"},
    {Op::lt, "{a} < {b}"},
    {Op::le, "{a} <= {b}"},
    {Op::gt, "{a} > {b}"},
    {Op::eq, "{a} == {b}"},
    {Op::ne, "{a} != {b}"},
    {Op::shl, "sf_shl_{n}({a}, {b})"},
    {Op::shr, "sf_shr_{n}({a}, {b})"},
    {Op::logical_not, "!{a}"},
    {Op::bit_and, "{a} && {b}", "{a} & {b}"},
    {Op::bit_or, "{a} || {b}", "{a} | {b}"},
    {Op::bit_xor, "{a} ^ {b}"},
    {Op::select, "{a} ? {b} : {c}"},
};

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
  if (op == Op::cast) return cast_expression(in, out, a);
  if (op == Op::bitcast) return bitcast_expression(in, out, a);
  return spell(kSpellings, op, in, value_type(in), a, b, c);
}

std::string function(const plan::Expansion& e) {
  return plan::function_text(e, {"static inline", value_type, literal, expression});
}

}  // namespace stepfuse::c
