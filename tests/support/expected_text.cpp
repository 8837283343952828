// Expected texts kept in files. Knows the file system.
#include "tests/support/expected_text.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "ir/text/words.hpp"
#include "tests/source_dir.hpp"

namespace stepfuse::testing {
namespace {

using Lines = std::vector<std::string_view>;

bool updating() {
  const char* value = std::getenv("STEPFUSE_UPDATE_FILETESTS");
  return value != nullptr && *value != '\0' && std::string_view(value) != "0";
}

void print_lines(std::string& out, char mark, const Lines& lines, size_t begin, size_t end) {
  constexpr size_t kMost = 20;
  for (size_t i = begin; i < end; ++i) {
    if (i - begin == kMost) {
      out += fmt::format("{} … {} more lines\n", mark, end - i);
      return;
    }
    out += fmt::format("{}{}\n", mark, lines[i]);
  }
}

}  // namespace

std::string line_difference(std::string_view expected, std::string_view actual) {
  if (expected == actual) return "";
  Lines e = split(expected, "\n");
  Lines a = split(actual, "\n");
  size_t same = 0;
  while (same < std::min(e.size(), a.size()) && e[same] == a[same]) ++same;
  size_t tail = 0;
  while (tail < std::min(e.size(), a.size()) - same &&
         e[e.size() - 1 - tail] == a[a.size() - 1 - tail]) {
    ++tail;
  }
  size_t context = std::min<size_t>(same, 3);
  std::string out = fmt::format("from line {}:\n", same + 1);
  print_lines(out, ' ', e, same - context, same);
  print_lines(out, '-', e, same, e.size() - tail);
  print_lines(out, '+', a, same, a.size() - tail);
  print_lines(out, ' ', e, e.size() - tail, e.size() - tail + std::min<size_t>(tail, 3));
  if (same == e.size() && same == a.size()) out += "only the last line's end differs\n";
  return out;
}

void check_expected(std::string_view path, const std::string& actual) {
  std::filesystem::path file = std::filesystem::path(STEPFUSE_SOURCE_DIR) / "tests" / path;
  if (updating()) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << actual;
    return;
  }
  std::ifstream in(file, std::ios::binary);
  std::stringstream expected;
  expected << in.rdbuf();
  std::string difference =
      in ? line_difference(expected.str(), actual) : "there is no such file yet";
  std::string message =
      fmt::format("{}\n{}\nIf this is right, run the test again with STEPFUSE_UPDATE_FILETESTS=1",
                  file.string(), difference);
  CHECK_MESSAGE(difference.empty(), message);
}

}  // namespace stepfuse::testing
