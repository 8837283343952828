// Renders errors. Knows only std and fmt.
#include <algorithm>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "ir/text/printable.hpp"

namespace stepfuse {

std::string_view name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::parse:
      return "parse";
    case ErrorKind::verify:
      return "verify";
    case ErrorKind::bind:
      return "bind";
    case ErrorKind::compile:
      return "compile";
    case ErrorKind::device:
      return "device";
    case ErrorKind::usage:
      return "usage";
  }
  internal_error("bad ErrorKind");
}

namespace {
std::string clean_lines(std::string_view message) {
  size_t nowhere = 0;
  return printable(message, &nowhere, '\n');
}
}  // namespace

Error::Error(ErrorKind kind, std::string_view message, SourceLoc loc)
    : std::runtime_error(clean_lines(message)), kind_(kind), loc_(loc) {}

std::string render_at(std::string_view file, std::string_view text, SourceLoc loc,
                      std::string_view message) {
  if (loc.line <= 0) return fmt::format("{}: error: {}", file, message);
  size_t begin = 0;
  for (int line = 1; line < loc.line && begin != std::string_view::npos; ++line) {
    begin = text.find('\n', begin);
    if (begin != std::string_view::npos) ++begin;
  }
  std::string out = fmt::format("{}:{}:{}: error: {}", file, loc.line, loc.column, message);
  if (begin == std::string_view::npos) return out;
  std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
  // A line may be megabytes long: show a window around the column.
  constexpr size_t kWindow = 100;
  size_t column = static_cast<size_t>(loc.column - 1);
  size_t from = column > kWindow / 2 ? column - kWindow / 2 : 0;
  if (line.size() <= kWindow) from = 0;
  size_t caret = column - from;
  std::string shown = printable(line.substr(std::min(from, line.size()), kWindow), &caret);
  return fmt::format("{}\n  {}\n  {:>{}}", out, shown, '^', caret + 1);
}

void internal_error(std::string_view message, std::source_location where) {
  throw std::logic_error(fmt::format(
      "internal error in stepfuse ({}:{}): {}. This is a bug in stepfuse: please report it.",
      where.file_name(), where.line(), message));
}

}  // namespace stepfuse
