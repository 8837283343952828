// Error rendering. Knows only std and fmt.
#include <algorithm>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

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

// Bytes of the UTF-8 sequence that `text` begins with; 0 if it begins with none.
size_t sequence_length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char lead = byte(0);
  size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (lead > 0xf4 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (length < 3) return length;
  // Longer than needed, surrogates, and beyond the last code point.
  unsigned two = static_cast<unsigned>(lead) << 8 | byte(1);
  bool bad = two < 0xe0a0 || (two >= 0xeda0 && two < 0xee00) || (two >= 0xf000 && two < 0xf090) ||
             two >= 0xf490;
  return bad ? 0 : length;
}

// A part of a line as a terminal may see it: control characters and what is no UTF-8 become '?'.
// `column` counts bytes and is moved to the character's place.
std::string printable(std::string_view line, size_t* column) {
  std::string out;
  size_t shown = 0;
  size_t at = *column;
  for (size_t i = 0; i < line.size(); ++shown) {
    if (i <= *column) at = shown;
    size_t length = sequence_length(line.substr(i));
    bool control = length == 1 && (static_cast<unsigned char>(line[i]) < 0x20 || line[i] == 0x7f);
    // U+0080 to U+009F steer terminals too.
    control |= length == 2 && line[i] == '\xc2' && static_cast<unsigned char>(line[i + 1]) < 0xa0;
    if (length == 0 || control) {
      out += line[i] == '\t' ? ' ' : '?';
    } else {
      out += line.substr(i, length);
    }
    i += std::max<size_t>(1, length);
  }
  *column = *column >= line.size() ? shown + (*column - line.size()) : at;
  return out;
}

}  // namespace

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
  // A line of noise may be megabytes long: show a window around the column.
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
