// Tokens of formula text. Knows ir errors only.
#pragma once

#include <cstdint>
#include <string_view>

#include <stepfuse/error.hpp>

namespace stepfuse::formula {

enum class TokenKind : uint8_t { name, number, text, sign, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;  // without the quotes
  SourceLoc loc;
  bool touches = false;  // the token before it
};

// Splits the text; `//` begins a comment. Throws Error{parse} at the first foreign character.
class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) { advance(); }
  const Token& peek() const { return token_; }
  Token next() {
    Token t = token_;
    advance();
    return t;
  }
  [[noreturn]] void fail(SourceLoc loc, std::string_view message) const;

 private:
  void advance();
  void skip_blanks();
  size_t word_end() const;
  SourceLoc here() const { return {line_, static_cast<int>(pos_ - line_start_) + 1}; }

  std::string_view text_;
  std::string_view file_;
  size_t pos_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
  Token token_;
};

}  // namespace stepfuse::formula
