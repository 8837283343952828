// Tokens of the IR text. Knows ir errors only.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/text/text_cursor.hpp"

namespace stepfuse {

// A word is [A-Za-z0-9_.+-]+ (keywords, names, numbers); '@' or '%' before a word makes a symbol.
enum class TokenKind : uint8_t { word, at_name, percent_name, punctuation, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;  // without the sigil
  SourceLoc loc;
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

  Token token_;
};

}  // namespace stepfuse
