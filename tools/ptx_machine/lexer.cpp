// Cuts PTX text into tokens; knows that debug line directives carry nothing to execute.
#include "tools/ptx_machine/lexer.hpp"

#include <fmt/format.h>

#include "tools/ptx_machine/error.hpp"

namespace ptx {
namespace {

// The same in every locale.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool starts_word(char c) {
  char lower = static_cast<char>(c | 32);
  return (lower >= 'a' && lower <= 'z') || c == '_' || c == '$' || c == '%' || c == '.';
}
constexpr bool in_word(char c) { return starts_word(c) || is_digit(c); }
constexpr bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f' || c == '\0';
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (true) {
      skip_blank();
      if (at_ >= source_.size()) break;
      next();
    }
    tokens_.push_back({TokenKind::end, "end of text", line_});
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  void skip_line() {
    while (at_ < source_.size() && source_[at_] != '\n') ++at_;
  }

  void skip_blank() {
    while (at_ < source_.size()) {
      char c = peek();
      if (c == '\n') {
        ++line_;
        ++at_;
      } else if (is_blank(c)) {
        ++at_;
      } else if (c == '/' && peek(1) == '/') {
        skip_line();
      } else if (c == '/' && peek(1) == '*') {
        std::size_t close = source_.find("*/", at_ + 2);
        if (close == std::string_view::npos) close = source_.size() - 2;
        for (; at_ < close + 2; ++at_) line_ += source_[at_] == '\n' ? 1 : 0;
      } else {
        return;
      }
    }
  }

  void push(TokenKind kind, std::size_t begin) {
    tokens_.push_back({kind, source_.substr(begin, at_ - begin), line_});
  }

  void next() {
    std::size_t begin = at_;
    char c = peek();
    if (starts_word(c)) {
      // "::" joins a word (.L1::no_allocate, .shared::cta); a single ':' ends a label.
      while (in_word(peek()) || (peek() == ':' && peek(1) == ':')) at_ += peek() == ':' ? 2 : 1;
      push(TokenKind::word, begin);
      if (tokens_.back().is(".loc") || tokens_.back().is(".file")) {
        tokens_.pop_back();
        skip_line();
      }
    } else if (is_digit(c)) {
      while (in_word(peek())) ++at_;
      push(TokenKind::number, begin);
    } else if (c == '"') {
      ++at_;
      while (at_ < source_.size() && peek() != '"' && peek() != '\n') ++at_;
      ++at_;
      push(TokenKind::string, begin);
    } else if (std::string_view("{}[]()<>,;:|@!=+-").find(c) != std::string_view::npos) {
      ++at_;
      push(TokenKind::punctuation, begin);
    } else {
      throw MachineError(ErrorKind::syntax, fmt::format("line {}: stray '{}'", line_, c));
    }
  }

  std::string_view source_;
  std::size_t at_ = 0;
  u32 line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace ptx
