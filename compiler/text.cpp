// Collects generated lines. Knows only std.
#include "compiler/text.hpp"

#include <utility>

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

void Text::array(std::string_view code, const std::vector<std::string>& values,
                 std::string_view comment) {
  constexpr size_t kWidth = 96;
  open(code, comment);
  std::string row;
  for (const std::string& value : values) {
    if (row.size() + value.size() + 2 > kWidth) line(std::exchange(row, ""));
    row += (row.empty() ? "" : " ") + value + ",";
  }
  line(row);
  close("};");
}

}  // namespace stepfuse
