// A place in a text of ours that is cut into tokens: its lines, blanks, comments and errors. Knows ir
// errors only.
#pragma once

#include <string_view>

#include <stepfuse/error.hpp>

namespace stepfuse {

class TextCursor {
 public:
  // Throws Error{parse} that shows the place.
  [[noreturn]] void fail(SourceLoc loc, std::string_view message) const;

 protected:
  TextCursor(std::string_view text, std::string_view file) : text_(text), file_(file) {}
  // Also over comments, which `//` begins.
  void skip_blanks();
  SourceLoc here() const { return {line_, static_cast<int>(pos_ - line_start_) + 1}; }

  std::string_view text_;
  size_t pos_ = 0;

 private:
  std::string_view file_;
  size_t line_start_ = 0;
  int line_ = 1;
};

}  // namespace stepfuse
