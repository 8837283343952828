// Reads and writes filetests. Knows std and fmt.
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "tests/filetests/filetest.hpp"

namespace stepfuse::testing {
namespace {

constexpr std::string_view kCase = "//=== ";
constexpr std::string_view kEach = "//--- each";
constexpr std::string_view kSection = "//>>> ";
constexpr std::string_view kRun = "// RUN: ";

std::string_view trimmed(std::string_view text) {
  size_t end = text.find_last_not_of(' ');
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end + 1);
}

// `ERROR 12 V2 "part"`, without the word.
Expectation error_of(std::string_view text, const std::string& where) {
  Expectation e{.kind = Expectation::Kind::error};
  size_t quote = text.find('"');
  if (quote == std::string_view::npos || text.back() != '"' || quote + 1 == text.size())
    throw std::runtime_error(where + ": expected // ERROR COLUMN [V RULE] \"part of the message\"");
  e.text = text.substr(quote + 1, text.size() - quote - 2);
  std::istringstream numbers{std::string(text.substr(0, quote))};
  std::string rule;
  if (!(numbers >> e.column))
    throw std::runtime_error(where + ": ERROR needs the column of the error");
  if (numbers >> rule) e.rule = std::stoi(rule.substr(1));
  return e;
}

FileLine line_of(const std::string& text, const std::string& where) {
  using Kind = Expectation::Kind;
  FileLine line{.text = text, .expected = {}};
  for (auto [mark, kind] :
       {std::pair{"// CHECK: ", Kind::contains}, std::pair{"// CHECK-NOT: ", Kind::contains_not}}) {
    if (!text.starts_with(mark)) continue;
    line.text.clear();
    line.expected.push_back({.kind = kind, .text = text.substr(std::string_view(mark).size())});
    return line;
  }
  if (size_t at = text.find("// =>"); at != std::string::npos) {
    line.text = trimmed(text.substr(0, at));
    std::string after = text.substr(at + 5);
    after.erase(0, after.find_first_not_of(' '));
    line.expected.push_back({.kind = Kind::becomes, .text = after});
    return line;
  }
  size_t at = text.find("// ERROR ");
  if (at == std::string::npos) return line;
  line.text = trimmed(text.substr(0, at));
  while (at != std::string::npos) {
    size_t next = text.find("// ERROR ", at + 1);
    std::string one = text.substr(at + 9, next == std::string::npos ? next : next - at - 9);
    line.expected.push_back(error_of(trimmed(one), where));
    at = next;
  }
  return line;
}

std::string print(const Expectation& e) {
  using Kind = Expectation::Kind;
  if (e.kind == Kind::becomes) return std::string(trimmed("// => " + e.text));
  if (e.kind == Kind::contains) return "// CHECK: " + e.text;
  if (e.kind == Kind::contains_not) return "// CHECK-NOT: " + e.text;
  std::string rule = e.rule == 0 ? "" : fmt::format("V{} ", e.rule);
  return fmt::format("// ERROR {} {}\"{}\"", e.column, rule, e.text);
}

void print_lines(std::string& out, const std::vector<FileLine>& lines) {
  for (const FileLine& line : lines) {
    std::string text = line.text;
    for (const Expectation& e : line.expected) text += (text.empty() ? "" : "  ") + print(e);
    out += text + '\n';
  }
}

}  // namespace

FileTest read_filetest(const std::filesystem::path& path) {
  FileTest test{.path = path, .head = {}, .cases = {}};
  std::ifstream in(path, std::ios::binary);
  std::string run_of_all;
  std::string text;
  for (int number = 1; std::getline(in, text); ++number) {
    std::string where = fmt::format("{}:{}", path.string(), number);
    if (text.starts_with(kCase)) {
      test.cases.push_back({.title = text.substr(kCase.size()), .run = run_of_all});
      test.cases.back().first_line = number + 1;
      continue;
    }
    bool runs = text.starts_with(kRun);
    if (runs && test.cases.empty()) run_of_all = text.substr(kRun.size());
    if (test.cases.empty()) {
      test.head += text + '\n';
      continue;
    }
    FileCase& c = test.cases.back();
    if (text.starts_with(kSection)) {
      c.sections.push_back({.stage = text.substr(kSection.size()), .text = {}});
    } else if (!c.sections.empty()) {
      c.sections.back().text += text + '\n';
    } else if (text == kEach) {
      c.first_each = number + 1;
    } else {
      if (runs) c.run = text.substr(kRun.size());
      (c.first_each > 0 ? c.each : c.lines).push_back(line_of(text, where));
    }
  }
  if (test.cases.empty()) throw std::runtime_error(path.string() + ": there is no '//=== case'");
  return test;
}

std::string write_filetest(const FileTest& test) {
  std::string out = test.head;
  for (const FileCase& c : test.cases) {
    out += std::string(kCase) + c.title + '\n';
    print_lines(out, c.lines);
    if (c.first_each > 0) out += std::string(kEach) + '\n';
    print_lines(out, c.each);
    for (const FileSection& s : c.sections) {
      out += std::string(kSection) + s.stage + '\n' + s.text;
    }
  }
  return out;
}

}  // namespace stepfuse::testing
