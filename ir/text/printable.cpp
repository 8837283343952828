// Cleans text for terminals. Knows only std.
#include "ir/text/printable.hpp"

#include <algorithm>

namespace stepfuse {
namespace {

// Returns the length of the UTF-8 sequence at the start of `text`; 0 if it is invalid.
size_t sequence_length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char lead = byte(0);
  size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (lead > 0xf4 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (length < 3) return length;
  // Overlong sequences, surrogates, and numbers beyond the last code point are invalid.
  unsigned two = static_cast<unsigned>(lead) << 8 | byte(1);
  bool bad = two < 0xe0a0 || (two >= 0xeda0 && two < 0xee00) || (two >= 0xf000 && two < 0xf090) ||
             two >= 0xf490;
  return bad ? 0 : length;
}

}  // namespace

std::string printable(std::string_view line, size_t* column, char kept) {
  std::string out;
  size_t shown = 0;
  size_t at = *column;
  for (size_t i = 0; i < line.size(); ++shown) {
    if (i <= *column) at = shown;
    size_t length = sequence_length(line.substr(i));
    bool control = length == 1 && (static_cast<unsigned char>(line[i]) < 0x20 || line[i] == 0x7f);
    // Characters U+0080 to U+009F control terminals, too.
    control |= length == 2 && line[i] == '\xc2' && static_cast<unsigned char>(line[i + 1]) < 0xa0;
    if ((length == 0 || control) && line[i] != kept) {
      out += line[i] == '\t' ? ' ' : '?';
    } else {
      out += line.substr(i, length);
    }
    i += std::max<size_t>(1, length);
  }
  *column = *column >= line.size() ? shown + (*column - line.size()) : at;
  return out;
}

std::string printable(std::string_view text) {
  size_t nowhere = 0;
  return printable(text, &nowhere, '?');
}

}  // namespace stepfuse
