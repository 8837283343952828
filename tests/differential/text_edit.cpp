// Edits of emitted text. Knows only std.
#include "tests/differential/text_edit.hpp"

#include <sstream>

namespace stepfuse::testing {

TextEdit replace_in_lines(std::string mark, const std::string& pattern, std::string with) {
  return [mark = std::move(mark), regex = std::regex(pattern),
          with = std::move(with)](const std::string& text) {
    std::istringstream lines(text);
    std::string out;
    for (std::string line; std::getline(lines, line);) {
      bool here = line.find(mark) != std::string::npos;
      out += here ? std::regex_replace(line, regex, with) : line;
      out += '\n';
    }
    return out;
  };
}

TextEdit replace_text(std::string what, std::string with) {
  return [what = std::move(what), with = std::move(with)](std::string text) {
    for (size_t at = text.find(what); at != std::string::npos;
         at = text.find(what, at + with.size())) {
      text.replace(at, what.size(), with);
    }
    return text;
  };
}

TextEdit within(std::string begin, std::string end, TextEdit edit) {
  return [begin = std::move(begin), end = std::move(end),
          edit = std::move(edit)](const std::string& text) {
    std::string out;
    size_t at = 0;
    for (size_t from = text.find(begin); from != std::string::npos; from = text.find(begin, at)) {
      size_t to = text.find(end, from);
      if (to == std::string::npos) break;
      out += text.substr(at, from - at) + edit(text.substr(from, to - from));
      at = to;
    }
    return out + text.substr(at);
  };
}

TextEdit both(TextEdit first, TextEdit second) {
  return [first = std::move(first), second = std::move(second)](std::string text) {
    return second(first(std::move(text)));
  };
}

}  // namespace stepfuse::testing
