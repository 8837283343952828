// Collects generated lines. Knows only std.
#include "compiler/text.hpp"

namespace stepfuse {

void Text::line(std::string_view code, std::string_view comment) {
  text_.append(static_cast<size_t>(depth_) * 2, ' ');
  text_ += code;
  if (!comment.empty()) {
    text_ += "  // ";
    text_ += comment;
  }
  text_ += '\n';
}

void Text::open(std::string_view code, std::string_view comment) {
  line(code.empty() ? std::string("{") : std::string(code) + " {", comment);
  ++depth_;
}

void Text::close(std::string_view tail) {
  --depth_;
  line(tail);
}

}  // namespace stepfuse
