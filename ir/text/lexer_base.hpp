// The tokens, blanks, comments and errors that both languages share. Knows ir errors only.
#pragma once

#include <cstdint>
#include <string_view>

#include <stepfuse/error.hpp>

namespace stepfuse {

// In a step, a number is a word, and '@' or '%' before a word makes a symbol.
enum class TokenKind : uint8_t { word, number, text, at_name, percent_name, sign, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;  // without '@', '%' and quotes
  SourceLoc loc;
  bool touches = false;  // it directly follows the token before it
};

class LexerBase {
 public:
  virtual ~LexerBase() = default;
  const Token& peek() const { return token_; }
  Token next() {
    Token t = token_;
    last_end_ = here();
    advance();
    return t;
  }
  SourceLoc last_end() const { return last_end_; }  // end of the token that next() returned last
  // Throws Error{parse} that shows the position.
  [[noreturn]] void fail(SourceLoc loc, std::string_view message) const;

 protected:
  LexerBase(std::string_view text, std::string_view file) : text_(text), file_(file) {}
  // Reads token_. Throws Error{parse} at the first invalid character.
  virtual void advance() = 0;
  // `//` starts a comment, which counts as a blank.
  void skip_blanks();
  SourceLoc here() const { return {line_, static_cast<int>(pos_ - line_start_) + 1}; }

  std::string_view text_;
  size_t pos_ = 0;
  Token token_;

 private:
  std::string_view file_;
  size_t line_start_ = 0;
  int line_ = 1;
  SourceLoc last_end_;
};

}  // namespace stepfuse
