// Tokens of formula text. Knows ir errors only.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/text/text_cursor.hpp"

namespace stepfuse::formula {

enum class TokenKind : uint8_t { name, number, text, sign, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;  // without the quotes
  SourceLoc loc;
  bool touches = false;  // the token before it
};

// Splits the text; `//` begins a comment. Throws Error{parse} at the first foreign character.
class Lexer : public TextCursor {
 public:
  Lexer(std::string_view text, std::string_view file) : TextCursor(text, file) { advance(); }
  const Token& peek() const { return token_; }
  Token next() {
    Token t = token_;
    advance();
    return t;
  }

 private:
  void advance();
  size_t word_end() const;

  Token token_;
};

}  // namespace stepfuse::formula
