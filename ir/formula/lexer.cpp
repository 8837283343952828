// Splits formula text into tokens. Knows ir errors and fmt.
#include "ir/formula/lexer.hpp"

#include <fmt/format.h>

#include "ir/formula/ast.hpp"

namespace stepfuse::formula {
namespace {
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
}  // namespace

// Returns the end of the name or number that starts here. Only the e of a number may be followed by a sign.
size_t Lexer::word_end() const {
  bool number = !is_letter(text_[pos_]);
  size_t end = pos_;
  while (end < text_.size()) {
    char c = text_[end];
    bool exponent =
        number && end > pos_ && (c == '+' || c == '-') && (text_[end - 1] | 0x20) == 'e';
    if (!is_letter(c) && !is_digit(c) && !(number && c == '.') && !exponent) break;
    ++end;
  }
  return end;
}

void Lexer::advance() {
  size_t before = pos_;
  skip_blanks();
  token_ = {TokenKind::end, "", here(), pos_ == before};
  if (pos_ == text_.size()) return;
  char c = text_[pos_];
  if (is_letter(c) || is_digit(c) || c == '.') {
    size_t end = word_end();
    token_.kind = is_letter(c) ? TokenKind::word : TokenKind::number;
    token_.text = text_.substr(pos_, end - pos_);
    if (token_.kind == TokenKind::word && token_.text.size() > kMaxName) {
      fail(here(), fmt::format("this name has {} characters; it can have at most {}",
                               token_.text.size(), kMaxName));
    }
    pos_ = end;
  } else if (c == '"') {
    size_t end = text_.find_first_of("\"\n", pos_ + 1);
    if (end == std::string_view::npos || text_[end] == '\n') {
      fail(here(), "this text has no closing '\"' on its line");
    }
    token_.kind = TokenKind::text;
    token_.text = text_.substr(pos_ + 1, end - pos_ - 1);
    pos_ = end + 1;
  } else {
    token_.kind = TokenKind::sign;
    std::string_view two = text_.substr(pos_, 2);
    bool pair =
        two == "==" || two == "!=" || two == "<=" || two == ">=" || two == "&&" || two == "||";
    if (!pair && (c == '&' || c == '|')) {
      fail(here(), fmt::format("there is no '{0}'; write {0}{0} between conditions", c));
    }
    if (!pair && std::string_view("{}(),:?=+-*/%^<>!@").find(c) == std::string_view::npos) {
      fail(here(), fmt::format("unexpected character (code {}); a formula consists of names, "
                               "numbers, \"texts\" and {{}} () + - * / % ^ ? : = < > ! && || ,",
                               static_cast<unsigned char>(c)));
    }
    token_.text = text_.substr(pos_, pair ? 2 : 1);
    pos_ += token_.text.size();
  }
}

}  // namespace stepfuse::formula
