// Walks the tokens of one module; knows how a number is written, nothing of what it is for.
#include <charconv>

#include <fmt/format.h>

#include "tools/ptx_machine/error.hpp"
#include "tools/ptx_machine/parser.hpp"

namespace ptx {

const Token& TokenStream::take() {
  const Token& token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::accept(std::string_view text) {
  if (!peek().is(text) || peek().kind == TokenKind::end) return false;
  take();
  return true;
}

void TokenStream::expect(std::string_view text) {
  if (!accept(text)) fail(fmt::format("expected '{}' before '{}'", text, peek().text));
}

std::string_view TokenStream::word() {
  if (peek().kind != TokenKind::word) fail(fmt::format("expected a name before '{}'", peek().text));
  return take().text;
}

u64 TokenStream::integer() {
  bool negative = accept("-");
  if (!negative) accept("+");
  std::string_view text = peek().text;
  if (peek().kind != TokenKind::number) fail(fmt::format("expected a number before '{}'", text));
  std::string_view digits = text;
  if (digits.ends_with('U')) digits.remove_suffix(1);
  int base = 10;
  if (digits.starts_with("0x") || digits.starts_with("0X")) {
    digits.remove_prefix(2);
    base = 16;
  } else if (digits.starts_with("0b") || digits.starts_with("0B")) {
    digits.remove_prefix(2);
    base = 2;
  } else if (digits.size() > 1 && digits.starts_with('0')) {
    base = 8;
  }
  u64 value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    fail(fmt::format("'{}' is not an integer", text));
  }
  take();
  return negative ? 0 - value : value;
}

std::string_view TokenStream::text_from(const Token& first) const {
  const Token& last = tokens_[at_ - 1];
  const char* begin = first.text.data();
  return {begin, static_cast<std::size_t>(last.text.data() + last.text.size() - begin)};
}

void TokenStream::fail(const std::string& what) const {
  throw MachineError(ErrorKind::syntax, fmt::format("line {}: {}", peek().line, what));
}

}  // namespace ptx
