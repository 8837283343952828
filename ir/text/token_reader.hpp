// What a parser of steps asks of its tokens, and how it says what is missing. Knows fmt.
#pragma once

#include <string_view>

#include <fmt/format.h>

#include "ir/text/lexer.hpp"

namespace stepfuse {

class TokenReader {
 protected:
  TokenReader(std::string_view text, std::string_view file) : lexer_(text, file) {}

  Token next() {
    Token t = lexer_.next();
    int width = static_cast<int>(t.text.size());
    bool sigil = t.kind == TokenKind::at_name || t.kind == TokenKind::percent_name;
    last_end_ = {t.loc.line, t.loc.column + width + (sigil ? 1 : 0)};
    return t;
  }

  bool at_punctuation(std::string_view p) const {
    return lexer_.peek().kind == TokenKind::punctuation && lexer_.peek().text == p;
  }
  bool at_word(std::string_view w) const {
    return lexer_.peek().kind == TokenKind::word && lexer_.peek().text == w;
  }
  // What is missing within a statement is missing where its line ends, not where the next begins.
  [[noreturn]] void fail_expected(std::string_view what, bool begins_statement = false) {
    const Token& t = lexer_.peek();
    if (!begins_statement && t.kind != TokenKind::end && t.loc.line > last_end_.line &&
        last_end_.line > 0) {
      lexer_.fail(last_end_, fmt::format("expected {}, but the line ends here", what));
    }
    std::string_view sigil = t.kind == TokenKind::at_name        ? "@"
                             : t.kind == TokenKind::percent_name ? "%"
                                                                 : "";
    lexer_.fail(t.loc,
                t.kind == TokenKind::end
                    ? fmt::format("expected {}, but the text ends here", what)
                    : fmt::format("expected {}, found '{}{}'", what, sigil, t.text.substr(0, 40)));
  }
  Token expect(TokenKind kind, std::string_view what) {
    if (lexer_.peek().kind != kind) fail_expected(what);
    return next();
  }
  void expect_word(std::string_view w) {
    if (!at_word(w)) fail_expected(fmt::format("'{}'", w));
    next();
  }
  void expect_punctuation(std::string_view p) {
    if (!at_punctuation(p)) fail_expected(fmt::format("'{}'", p));
    next();
  }

  Lexer lexer_;

 private:
  SourceLoc last_end_;  // behind the last token
};

}  // namespace stepfuse
