// samples/steps: every file is what its own first lines say, `stepfuse dump RECIPE --…`. Run with
// STEPFUSE_UPDATE=1 to rewrite the steps (their comments stay). Knows ir.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>
#include <stepfuse/recipes.hpp>

#include "tests/source_dir.hpp"

using namespace stepfuse;

namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The comment before the step, and its line "// stepfuse dump adamw --clip=l2 --emit=ir".
std::string header_of(const std::string& text) { return text.substr(0, text.find("step @")); }

Program program_of(const std::string& header) {
  const std::string mark = "stepfuse dump ";
  size_t at = header.find(mark);
  REQUIRE(at != std::string::npos);
  std::istringstream words(header.substr(at + mark.size()));
  std::string recipe, word;
  words >> recipe;
  RecipeOptions options;
  while (words >> word && word.substr(0, 2) == "--") {
    size_t equals = word.find('=');
    std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (name == "emit") break;
    set_option(options, name, equals == std::string::npos ? "" : word.substr(equals + 1));
  }
  return make_recipe(recipe, options);
}

}  // namespace

TEST_CASE("the steps in samples are the recipes' own text") {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(STEPFUSE_SOURCE_DIR "/samples/steps")) {
    if (entry.path().extension() != ".sf") continue;
    CAPTURE(entry.path().filename().string());
    std::string text = read_file(entry.path());
    std::string header = header_of(text);
    Program want = program_of(header);
    if (std::getenv("STEPFUSE_UPDATE") != nullptr) {
      text = header + print(want);
      std::ofstream(entry.path()) << text;
    }
    CHECK(parse(text) == want);
    ++count;
  }
  CHECK(count >= 10);
}
