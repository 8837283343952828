// Parses literals to their bits. Knows ir and fmt.
#include "ir/text/literal.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include <fmt/format.h>

#include "ir/semantics/semantics.hpp"
#include "ir/text/words.hpp"

namespace stepfuse {
namespace {

// Whether the text of a decimal number that is not 0 is below one. It tells underflow from overflow.
bool lies_below_one(std::string_view text) {
  size_t e = std::min(text.find_first_of("eE"), text.size());
  std::string_view exponent = text.substr(std::min(e + 1, text.size()));
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  // If the exponent has too many digits.
  double power = exponent.starts_with('-') ? -HUGE_VAL : HUGE_VAL;
  if (exponent.empty()) power = 0;
  std::from_chars(exponent.data(), exponent.data() + exponent.size(), power);
  std::string_view digits = text.substr(0, e);
  size_t point = std::min(digits.find('.'), digits.size());
  size_t first = digits.find_first_of("123456789");
  return static_cast<double>(point) - static_cast<double>(first) + power <= 0;
}

[[noreturn]] void fail_overflow(const Lexer& lexer, const Token& t, DType type) {
  const DTypeInfo& row = info(type);
  std::string highest = row.has_infinity() ? "inf" : literal_text({row.highest}, type);
  lexer.fail(t.loc, fmt::format("'{}' is beyond the numbers of type {}: write {}, or less",
                                t.text.substr(0, 40), name(type), highest));
}

Bits parse_word(const Lexer& lexer, const Token& t, DType type) {
  const char* begin = t.text.data();
  const char* end = begin + t.text.size();
  auto number = [&]<class T>(T) -> T {
    T v{};
    auto [p, ec] = std::from_chars(begin, end, v);
    if (ec == std::errc() && p == end) return v;
    if (ec == std::errc::result_out_of_range && p == end && std::is_floating_point_v<T>) {
      if (lies_below_one(t.text)) return t.text.starts_with('-') ? -T{} : T{};
      fail_overflow(lexer, t, type);
    }
    lexer.fail(t.loc,
               fmt::format("'{}' is not a constant of type {}", t.text.substr(0, 40), name(type)));
  };
  switch (type) {
    case DType::boolean:
      if (t.text == "true" || t.text == "false") return Bits::of(t.text == "true");
      lexer.fail(t.loc, "a bool constant is true or false");
    case DType::i32:
      return Bits::of(number(int32_t{}));
    case DType::i64:
      return Bits::of(number(int64_t{}));
    case DType::f64:
      return canonical_nan(Bits::of(number(double{})), type);
    case DType::f32:
      return canonical_nan(Bits::of(number(float{})), type);
    case DType::u8:
    case DType::i8:
    case DType::i16: {
      int32_t wide = number(int32_t{});
      Bits bits = sem::cast(Bits::of(wide), DType::i32, type);
      if (sem::cast(bits, type, DType::i32).i32() != wide) {
        lexer.fail(t.loc, fmt::format("'{}' is beyond the numbers of type {}", t.text.substr(0, 40),
                                      name(type)));
      }
      return bits;
    }
    case DType::bound:
      lexer.fail(t.loc, "a constant needs a concrete type");
    default: {
      float wide = number(float{});
      if (std::isnan(wide) && !is_nan({info(type).nan}, type)) {
        lexer.fail(t.loc, fmt::format("type {} has no NaN", name(type)));
      }
      if (!info(type).has_sign() && wide <= 0) {
        lexer.fail(t.loc,
                   fmt::format("'{}' is beyond the numbers of type {}, which are powers of two",
                               t.text.substr(0, 40), name(type)));
      }
      if (is_beyond(wide, type)) fail_overflow(lexer, t, type);
      return {narrow(wide, type)};
    }
  }
}

}  // namespace

Bits literal_bits(const Lexer& lexer, const Literal& literal, DType type) {
  if (!literal.raw) return parse_word(lexer, literal.token, type);
  std::string_view digits = literal.token.text;
  if (digits.starts_with("0x")) digits.remove_prefix(2);
  constexpr int kHex = 16;
  if (auto raw = parse_number<uint64_t>(digits, kHex)) return {*raw};
  lexer.fail(literal.token.loc, "bits(…) takes a hexadecimal number such as 0x7fc00001");
}

}  // namespace stepfuse
