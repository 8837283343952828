// Both texts say the place once, for all lines until the next.
#include "tools/explore/line_info.hpp"

#include <algorithm>
#include <charconv>
#include <map>

namespace stepfuse::explore {
namespace {

std::string_view trimmed(std::string_view s) {
  size_t begin = s.find_first_not_of(" \t");
  return begin == s.npos ? std::string_view() : s.substr(begin);
}

// The number behind the blanks at `*at`; 0 where there is none. Line 0 is the compilers' "no line".
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

struct Place {
  int line = 0, column = 0;
  auto operator<=>(const Place&) const = default;
};

// The chains of calls in PTX. `.loc 1 846 3, function_name $L__info_string0, inlined_at 1 877 5`:
// file, line, column, and where it was called; that place had a .loc of its own before, with its
// caller in turn.
class Chains {
 public:
  std::vector<int> lines_of(std::string_view loc) {
    constexpr std::string_view kInlined = "inlined_at";
    Place place = read(loc, std::string_view(".loc").size());
    std::vector<int> lines;
    add(&lines, place.line);
    if (size_t at = loc.find(kInlined); at != loc.npos) {
      Place caller = read(loc, at + kInlined.size());
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
  static Place read(std::string_view loc, size_t at) {
    next_number(loc, &at);  // the file: there is but one
    Place place;
    place.line = next_number(loc, &at);
    place.column = next_number(loc, &at);
    return place;
  }
  std::map<Place, std::vector<int>> known_;
};

// `//## File "…", line 846 inlined at "…", line 877`.
void add_places(std::string_view note, std::vector<int>* lines) {
  constexpr std::string_view kLine = "\", line ";
  for (size_t at = note.find(kLine); at != note.npos; at = note.find(kLine, at)) {
    at += kLine.size();
    add(lines, next_number(note, &at));
  }
}

// Without the columns of blanks between address, predicate and instruction.
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
  std::vector<std::string> lines;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<CodeLine> read_ptx(std::string_view ptx) {
  std::vector<CodeLine> out;
  std::vector<int> places;
  Chains chains;
  for (std::string& line : split_lines(ptx)) {
    std::string_view code = trimmed(line);
    if (code.starts_with(".section")) break;  // nothing but names of inlined functions
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
  bool in_notes = false;  // several in a row: the chain of inlined calls
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

}  // namespace stepfuse::explore
