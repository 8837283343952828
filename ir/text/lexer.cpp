// Splits IR text into tokens. Knows ir errors and fmt.
#include "ir/text/lexer.hpp"

#include <fmt/format.h>

namespace stepfuse {
namespace {
bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '+' || c == '-';
}
}  // namespace

void Lexer::advance() {
  skip_blanks();
  token_ = {TokenKind::end, "", here()};
  if (pos_ == text_.size()) return;
  char c = text_[pos_];
  bool sigil = c == '@' || c == '%';
  if (!sigil && !is_word_char(c)) {
    if (std::string_view("{}[]<>:,=|()/").find(c) == std::string_view::npos) {
      fail(here(), fmt::format("unexpected character (code {}); a step is written in ASCII words, "
                               "@names, %names and {{}} [] <> : , = | ( ) /",
                               static_cast<unsigned char>(c)));
    }
    token_.kind = TokenKind::sign;
    token_.text = text_.substr(pos_++, 1);
    return;
  }
  if (sigil) ++pos_;
  size_t begin = pos_;
  while (pos_ < text_.size() && is_word_char(text_[pos_])) ++pos_;
  token_.text = text_.substr(begin, pos_ - begin);
  token_.kind = !sigil ? TokenKind::word : c == '@' ? TokenKind::at_name : TokenKind::percent_name;
  if (token_.text.empty()) fail(token_.loc, fmt::format("a name must follow '{}'", c));
}

}  // namespace stepfuse
