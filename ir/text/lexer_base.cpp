// Skips blanks and comments of a text, and reports errors in it. Knows ir errors.
#include "ir/text/lexer_base.hpp"

#include <algorithm>

namespace stepfuse {

void LexerBase::fail(SourceLoc loc, std::string_view message) const {
  constexpr size_t kMaxMessage = 400;  // names in a malformed text may be megabytes long
  throw Error(ErrorKind::parse, render_at(file_, text_, loc, message.substr(0, kMaxMessage)), loc);
}

void LexerBase::skip_blanks() {
  while (pos_ < text_.size()) {
    char c = text_[pos_];
    if (c == '\n') {
      ++pos_;
      ++line_;
      line_start_ = pos_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++pos_;
    } else if (text_.substr(pos_, 2) == "//") {
      pos_ = std::min(text_.find('\n', pos_), text_.size());
    } else {
      return;
    }
  }
}

}  // namespace stepfuse
