// Reads line information. Both texts name a source line once, for all lines up to the next name.
#include "tools/explore/line_info.hpp"

#include <charconv>
#include <map>

#include "ir/text/words.hpp"

namespace stepfuse::explore {
namespace {

std::string_view trimmed(std::string_view s) {
  size_t begin = s.find_first_not_of(" \t");
  return begin == s.npos ? std::string_view() : s.substr(begin);
}

// The number after the blanks at `*at`, or 0. The compilers use line 0 for "no line".
// line".
int next_number(std::string_view s, size_t* at) {
  while (*at < s.size() && (s[*at] == ' ' || s[*at] == '\t')) ++*at;
  int n = 0;
  auto [end, error] = std::from_chars(s.data() + *at, s.data() + s.size(), n);
  *at = static_cast<size_t>(end - s.data());
  return error == std::errc{} ? n : 0;
}

void add(std::vector<int>* lines, int line) {
  if (line > 0) lines->push_back(line);
}

struct SourceLine {
  int line = 0, column = 0;
  auto operator<=>(const SourceLine&) const = default;
};

// Chains of inlined calls in PTX, as in `.loc 1 846 3, function_name $L__info_string0, inlined_at 1
// 877 5`: file, line and column, then the call's. The call has a .loc of its own earlier in the
// text, with its caller in turn.
class Chains {
 public:
  std::vector<int> lines_of(std::string_view loc) {
    constexpr std::string_view kInlined = "inlined_at";
    SourceLine place = read(loc, std::string_view(".loc").size());
    std::vector<int> lines;
    add(&lines, place.line);
    if (size_t at = loc.find(kInlined); at != loc.npos) {
      SourceLine caller = read(loc, at + kInlined.size());
      auto known = known_.find(caller);
      if (known != known_.end()) {
        lines.insert(lines.end(), known->second.begin(), known->second.end());
      } else {
        add(&lines, caller.line);
      }
    }
    known_[place] = lines;
    return lines;
  }

 private:
  static SourceLine read(std::string_view loc, size_t at) {
    next_number(loc, &at);  // skips the file: there is only one
    SourceLine place;
    place.line = next_number(loc, &at);
    place.column = next_number(loc, &at);
    return place;
  }
  std::map<SourceLine, std::vector<int>> known_;
};

// Reads `//## File "…", line 846 inlined at "…", line 877`.
void add_places(std::string_view note, std::vector<int>* lines) {
  constexpr std::string_view kLine = "\", line ";
  for (size_t at = note.find(kLine); at != note.npos; at = note.find(kLine, at)) {
    at += kLine.size();
    add(lines, next_number(note, &at));
  }
}

// Removes the columns of blanks between address, predicate and instruction.
std::string narrowed(std::string_view line) {
  std::string out;
  for (char c : line) {
    bool blank = c == ' ' || c == '\t';
    if (blank && (out.empty() || out.back() == ' ')) continue;
    out += blank ? ' ' : c;
  }
  return out;
}

}  // namespace

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string_view> lines = split(text, "\n");
  return {lines.begin(), lines.end()};
}

std::vector<CodeLine> read_ptx(std::string_view ptx) {
  std::vector<CodeLine> out;
  std::vector<int> places;
  Chains chains;
  for (std::string& line : split_lines(ptx)) {
    std::string_view code = trimmed(line);
    if (code.starts_with(".section")) break;  // only names of inlined functions follow
    if (code.starts_with(".loc")) {
      places = chains.lines_of(code);
      continue;
    }
    if (code.starts_with(".file")) continue;
    bool is_code = !code.empty() && code != "{" && code != "}" && !code.ends_with(":") &&
                   (code[0] != '.' && code[0] != '/' && code[0] != ')');
    if (code.starts_with("}")) places.clear();
    out.push_back({std::move(line), is_code ? places : std::vector<int>()});
  }
  return out;
}

std::vector<CodeLine> read_sass(std::string_view disassembly) {
  std::vector<CodeLine> out;
  std::vector<int> places;
  bool in_notes = false;  // several notes in a row are a chain of inlined calls
  for (std::string& line : split_lines(disassembly)) {
    std::string_view code = trimmed(line);
    if (code.starts_with("//##")) {
      if (!in_notes) places.clear();
      in_notes = true;
      add_places(code, &places);
      continue;
    }
    in_notes = false;
    bool is_code = code.starts_with("/*");
    if (code.starts_with(".text.") || code.starts_with(".section")) places.clear();
    out.push_back(
        {is_code ? narrowed(line) : std::move(line), is_code ? places : std::vector<int>()});
  }
  return out;
}

std::string function_name(std::string_view line) {
  constexpr std::string_view kLabel = ".text.";
  std::string_view label = trimmed(line);
  if (!label.starts_with(kLabel) || !label.ends_with(':')) return "";
  return std::string(label.substr(kLabel.size(), label.size() - kLabel.size() - 1));
}

std::optional<uint64_t> address_of(std::string_view line) {
  std::string_view code = trimmed(line);
  if (!code.starts_with("/*")) return std::nullopt;
  uint64_t address = 0;
  auto [end, error] = std::from_chars(code.data() + 2, code.data() + code.size(), address, 16);
  bool closed = std::string_view(end, code.data() + code.size()).starts_with("*/");
  return error == std::errc() && closed ? std::optional(address) : std::nullopt;
}

}  // namespace stepfuse::explore
