// Builds generated C and C++ text: indented lines with comments. Knows only std.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepfuse {

// Collects lines; open() and close() write braces and indent the lines between them.
class Text {
 public:
  void line(std::string_view code, std::string_view comment = {});
  void open(std::string_view code, std::string_view comment = {});  // "code {"
  void close(std::string_view tail = "}");
  void reopen() { ++depth_; }  // call it after close("} else {")
  // Writes "code {", the values, several per line, and "};".
  void array(std::string_view code, const std::vector<std::string>& values,
             std::string_view comment = {});
  void blank() { text_ += '\n'; }
  void pragma(std::string_view code) { text_ += std::string(code) + "\n"; }
  const std::string& str() const { return text_; }

 private:
  std::string text_;
  int depth_ = 0;
};

}  // namespace stepfuse
