// Reads the parameters of a format's text, and puts values in their places. Knows ir and fmt.
#include "ir/formats/format_text.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/error.hpp>
#include <stepfuse/types.hpp>

#include "ir/semantics/narrow.hpp"
#include "ir/text/words.hpp"

namespace stepfuse {
namespace {

using Words = std::vector<std::string_view>;
using Values = std::map<std::string_view, std::string_view>;  // by the parameter's name

// The words of a line up to its comment.
Words words_of(std::string_view line) {
  line = line.substr(0, line.find("//"));
  Words words = split(line, " \t\r");
  std::erase(words, std::string_view());
  return words;
}

[[noreturn]] void fail_at(std::string_view text, std::string_view file, std::string_view line,
                          std::string_view what) {
  auto before = text.substr(0, static_cast<size_t>(line.data() - text.data()));
  SourceLoc loc{static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1, 1};
  throw Error(ErrorKind::parse, render_at(file, text, loc, what), loc);
}

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

// Returns the type that a word stands for, or a number of that type.
std::string replaced(std::string_view word, const Values& types) {
  size_t dot = word.find('.');
  auto type = types.find(word.substr(0, dot));
  if (type == types.end()) return std::string(word);
  std::string_view fact = dot == std::string_view::npos ? "" : word.substr(dot + 1);
  if (fact.empty()) return std::string(type->second);
  DType dtype = *dtype_from_name(type->second);
  if (size_of(dtype) > 4) return std::string(word);  // stored nowhere, as the parser says
  if (!is_float(dtype)) {
    uint64_t count =
        info(dtype).kind == DTypeKind::natural ? 2 * info(dtype).sign() : info(dtype).sign();
    return fact == "max" ? fmt::format("{}", count - 1) : std::string(word);
  }
  uint32_t highest = static_cast<uint32_t>(info(dtype).highest);
  float most = widen(info(dtype).has_infinity() ? highest - 1 : highest, dtype);
  if (fact == "max") return fmt::format("{}", most);
  if (fact == "emax") return fmt::format("{}", std::ilogb(most));
  return std::string(word);
}

std::string replace_words(std::string_view line, const Values& types) {
  std::string out;
  while (!line.empty()) {
    size_t length = 0;
    while (length < line.size() && is_word_char(line[length])) ++length;
    bool is_name = !out.empty() && (out.back() == '%' || out.back() == '@');
    std::string_view word = line.substr(0, std::max<size_t>(length, 1));
    out += length == 0 || is_name ? std::string(word) : replaced(word, types);
    line.remove_prefix(word.size());
  }
  return out;
}

FormatParameter parse_parameter(std::string_view text, std::string_view file, std::string_view line,
                                const Words& words) {
  FormatParameter p{words.size() > 1 ? words[1] : "", words[0] == "type", {}};
  bool is_whole = words.size() >= 4 && words.size() % 2 == 0 && words[2] == "=";
  for (size_t i = 3; is_whole && i < words.size(); i += 2) {
    is_whole = i + 1 == words.size() || words[i + 1] == "|";
    p.values.push_back(words[i]);
  }
  if (!is_whole) {
    fail_at(text, file, line, "expected a parameter's values, as in 'type T = f8e4m3 | f8e5m2'");
  }
  for (std::string_view value : p.is_type ? p.values : Words()) {
    if (!dtype_from_name(value)) {
      fail_at(text, file, line, fmt::format("unknown type '{}'", value.substr(0, 40)));
    }
  }
  return p;
}

bool is_parameter(const Words& words) {
  return !words.empty() && (words[0] == "type" || words[0] == "choice");
}

Values values_of(const std::vector<FormatParameter>& parameters, std::string_view file,
                 std::span<const std::string_view> chosen) {
  Values values;
  Words known;
  for (const FormatParameter& p : parameters) {
    values[p.name] = p.values.front();
    for (std::string_view value : p.values) {
      known.push_back(value);
      if (std::find(chosen.begin(), chosen.end(), value) != chosen.end()) values[p.name] = value;
    }
  }
  for (std::string_view value : chosen) {
    if (std::find(known.begin(), known.end(), value) != known.end()) continue;
    throw Error(ErrorKind::usage,
                known.empty()
                    ? fmt::format("format {} has no '{}': it has no parameters", file, value)
                    : fmt::format("format {} has no '{}'; its parameters have the values {}", file,
                                  value, fmt::join(known, ", ")));
  }
  return values;
}

}  // namespace

std::vector<FormatParameter> format_parameters(std::string_view text, std::string_view file) {
  std::vector<FormatParameter> parameters;
  for (std::string_view line : split(text, "\n")) {
    Words words = words_of(line);
    if (is_parameter(words)) parameters.push_back(parse_parameter(text, file, line, words));
    if (!words.empty() && words[0] == "step") break;
  }
  return parameters;
}

std::string choose(std::string_view text, std::string_view file,
                   std::span<const std::string_view> chosen) {
  std::vector<FormatParameter> parameters = format_parameters(text, file);
  Values values = values_of(parameters, file, chosen);
  Values types;
  for (const FormatParameter& p : parameters) {
    if (p.is_type) types[p.name] = values[p.name];
  }
  std::string out;
  bool is_inside = false;
  bool is_head = true;  // before the first step
  bool is_left_out = false;
  for (std::string_view line : split(text, "\n")) {
    Words words = words_of(line);
    std::string_view first = words.empty() ? "" : words[0];
    is_head = is_head && first != "step";
    if (first == "when") {
      bool is_known = words.size() == 4 && words[2] == "=" && values.contains(words[1]);
      if (!is_known)
        fail_at(text, file, line, "expected a parameter's value, as in 'when round = rceil'");
      is_inside = true;
      is_left_out = values[words[1]] != words[3];
    } else if (first == "end") {
      if (!is_inside) fail_at(text, file, line, "there is no 'when' that this 'end' belongs to");
      is_inside = is_left_out = false;
    } else if (!is_left_out && !(is_head && is_parameter(words))) {
      out += replace_words(line, types);
    }
    out += '\n';  // so that lines keep their numbers
  }
  if (is_inside)
    throw Error(ErrorKind::parse, fmt::format("format {}: its last 'when' has no 'end'", file));
  return out;
}

}  // namespace stepfuse
