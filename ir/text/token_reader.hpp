// Reads tokens for the parsers of both languages, and reports missing ones. Knows fmt.
#pragma once

#include <string_view>

#include <fmt/format.h>

#include "ir/text/lexer_base.hpp"

namespace stepfuse {

template <class Lexer>
class TokenReader {
 protected:
  TokenReader(std::string_view text, std::string_view file) : lexer_(text, file) {}
  virtual ~TokenReader() = default;

  Token next() { return lexer_.next(); }
  bool at(TokenKind kind) const { return lexer_.peek().kind == kind; }
  bool at(TokenKind kind, std::string_view text) const {
    return at(kind) && lexer_.peek().text == text;
  }
  bool at(std::string_view sign) const { return at(TokenKind::sign, sign); }
  bool at_word(std::string_view word) const { return at(TokenKind::word, word); }
  bool take(std::string_view sign) { return take_if(at(sign)); }
  bool take_word(std::string_view word) { return take_if(at_word(word)); }
  void expect(std::string_view sign) {
    if (!take(sign)) fail_expected(fmt::format("'{}'", sign));
  }
  void expect_word(std::string_view word) {
    if (!take_word(word)) fail_expected(fmt::format("'{}'", word));
  }
  Token expect(TokenKind kind, std::string_view what) {
    if (!at(kind)) fail_expected(what);
    return next();
  }

  [[noreturn]] void fail(std::string_view message) const {
    lexer_.fail(lexer_.peek().loc, message);
  }
  // A language may replace this message by a better one.
  [[noreturn]] virtual void fail_expected(std::string_view what) const { fail_found(what); }
  [[noreturn]] void fail_found(std::string_view what, std::string_view hint = "") const {
    const Token& t = lexer_.peek();
    if (at(TokenKind::end)) {
      fail(fmt::format("expected {}, but the text ends here{}", what, hint));
    }
    std::string_view sigil = at(TokenKind::at_name) ? "@" : at(TokenKind::percent_name) ? "%" : "";
    fail(fmt::format("expected {}, found '{}{}'{}", what, sigil, t.text.substr(0, 40), hint));
  }

  Lexer lexer_;

 private:
  bool take_if(bool there) {
    if (there) next();
    return there;
  }
};

}  // namespace stepfuse
