// Runs every filetest of the folders beside this file. Knows filetests only.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/filetests/filetest.hpp"
#include "tests/source_dir.hpp"
#include "tests/support/expected_text.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace stepfuse::testing;
namespace fs = std::filesystem;

namespace {

const fs::path kRoot = fs::path(STEPFUSE_SOURCE_DIR) / "tests/filetests";

bool is_updating() { return std::getenv("STEPFUSE_UPDATE_FILETESTS") != nullptr; }

void run_file(const fs::path& path) {
  FileTest test = read_filetest(path);
  for (FileCase& c : test.cases) {
    CAPTURE(c.title);
    std::string faults;
    try {
      faults = run_case(test, c, is_updating());
    } catch (const std::exception& e) {
      faults = path.string() + ": " + c.title + ": " + e.what();
    }
    CHECK_MESSAGE(faults.empty(), faults);
  }
  if (is_updating()) std::ofstream(path, std::ios::binary) << write_filetest(test);
}

void run_folder(const char* name) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kRoot / name)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  CHECK(!files.empty());
  for (const fs::path& file : files) run_file(file);
}

const std::set<std::string> kFolders = {"formulas", "kernels", "passes", "recipes", "verifier"};

}  // namespace

TEST_CASE("filetests: formulas") { run_folder("formulas"); }
TEST_CASE("filetests: kernels") { run_folder("kernels"); }
TEST_CASE("filetests: passes") { run_folder("passes"); }
TEST_CASE("filetests: recipes") { run_folder("recipes"); }
TEST_CASE("filetests: verifier") { run_folder("verifier"); }

TEST_CASE("filetests: every folder is run") {
  std::set<std::string> folders;
  for (const auto& entry : fs::directory_iterator(kRoot)) {
    if (entry.is_directory()) folders.insert(entry.path().filename().string());
  }
  CHECK(folders == kFolders);
}

// Rule 1 can be broken by a program only: tests/unit/verifier_test.cpp.
TEST_CASE("filetests: every rule of the verifier is broken by some text") {
  std::set<int> rules;
  for (const auto& entry : fs::directory_iterator(kRoot / "verifier")) {
    for (const FileCase& c : read_filetest(entry.path()).cases) {
      for (const auto* lines : {&c.lines, &c.each}) {
        for (const FileLine& line : *lines) {
          for (const Expectation& e : line.expected) rules.insert(e.rule);
        }
      }
    }
  }
  for (int rule = 2; rule <= 17; ++rule) {
    CAPTURE(rule);
    CHECK(rules.contains(rule));
  }
}

TEST_CASE("filetests: a difference of texts is shown with its place") {
  CHECK(line_difference("a\nb\n", "a\nb\n") == "");
  CHECK(line_difference("a\nb\nc\nd\n", "a\nb\nx\ny\nd\n") ==
        "from line 3:\n a\n b\n-c\n+x\n+y\n d\n");
  CHECK(line_difference("", "a\n") == "from line 1:\n+a\n");
  CHECK(line_difference("a", "a\n") == "from line 2:\n a\nonly the last line's end differs\n");
  std::string many;
  for (int i = 0; i < 30; ++i) many += "line\n";
  CHECK(line_difference("", many).find("+ … 10 more lines") != std::string::npos);
}

// A runner that accepts everything would make every filetest pass.
TEST_CASE("filetests: expectations that do not hold are reported") {
  auto faults_of = [](const std::string& text) {
    ScratchFolder folder;
    fs::path path = folder.path() / "case.sf";
    std::ofstream(path) << "// A case.\n//=== it\n" + text;
    FileTest test = read_filetest(path);
    return run_case(test, test.cases[0], false);
  };
  const std::string step =
      "  buffer @w : f32 inout\n  %x = load @w : [f32]\n  %y = mul %x, 1 : [f32]\n"
      "  store @w, %y\n";
  auto reports = [&](const std::string& text, const char* what) {
    std::string faults = faults_of(text);
    CAPTURE(faults);
    CHECK(faults.find(what) != std::string::npos);
  };
  reports("// RUN: pass simplify\n" + step, "-  %y = mul");
  reports("// RUN: pass remove dead\n" + step + "  %z = neg %x : [f32]\n", "-  %z = neg");
  reports("// RUN: parse\n// CHECK: %absent\n" + step, "not in the result: %absent");
  reports("// RUN: parse\n// CHECK-NOT: %x\n" + step, "in the result: %x");
  reports("// RUN: verify\n" + step + "  store @w, %x\n", "unexpected error: column 3");
  reports("// RUN: verify\n" + step + "  store @w, %x  // ERROR 4 V7 \"twice\"\n", "no such error");
  reports("// RUN: verify\n" + step + "  store @w, %x  // ERROR 3 V8 \"twice\"\n", "no such error");
  reports("// RUN: verify\n" + step + "  store @w, %x  // ERROR 3 V7 \"once\"\n", "no such error");
  reports("// RUN: verify\n" + step + "//--- each\n  store @w, %x\n", "unexpected error: column 3");
  reports("// RUN: emit\n" + step + "//>>> plan\nnot this\n", "-not this");
  CHECK(faults_of("// RUN: verify\n" + step) == "");
}
