// Layout files: what they mean, and that every mistake in one is named.
#include "tools/workload/layout_file.hpp"

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>

#include "tests/source_dir.hpp"
#include "tests/support/file_faults.hpp"
#include "tests/support/messages.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

std::string error_of(std::string_view text) {
  return message_of(ErrorKind::parse, [&] { parse_layout(text, "x.json"); });
}

std::string in_tensor(const std::string& fields) {
  return R"({"name": "n", "tensors": [{"name": "t", )" + fields + "}]}";
}

LayoutFile sample(const std::string& name) {
  return read_layout_file(STEPFUSE_SOURCE_DIR "/samples/layouts/" + name + ".json");
}

}  // namespace

TEST_CASE("numbers beyond a double and names that steer terminals") {
  CHECK(has(error_of(in_tensor(R"("shape": [1e999])")), "not JSON"));
  CHECK(has(error_of(R"({"name": "a\u001b[2J", "tensors": []})"), "control character"));
  CHECK(has(error_of(R"({"name": "a", "tensors": [], "\u001b[2J": 1})"), "no field \"?[2J\""));
}

TEST_CASE("every field") {
  LayoutFile f = parse_layout(R"({"name": "n", "source": "s", "tensors": [
    {"name": "a", "shape": [3, 4]},
    {"name": "b", "shape": [], "group": 2, "count": 2, "dtypes": {"grad": "bf16"}, "misalign": 4},
    {"name": "c", "shape": [5, 0], "misalign": {"grad": 1}}]})");
  CHECK(f.name == "n");
  CHECK(f.source == "s");
  REQUIRE(f.tensors.size() == 4);
  CHECK(f.tensors[0].size == 12);
  CHECK(f.tensors[0].columns == 4);
  CHECK(f.tensors[0].group == 0);
  CHECK(f.tensors[1].name == "b.0");
  CHECK(f.tensors[2].name == "b.1");
  CHECK(f.tensors[2].size == 1);
  CHECK(f.tensors[2].columns == 0);  // no rows
  CHECK(f.tensors[2].group == 2);
  CHECK(f.tensors[2].dtypes.at("grad") == DType::bf16);
  CHECK(f.tensors[2].misalign_for("weight") == 4);
  CHECK(f.tensors[3].size == 0);
  CHECK(f.tensors[3].misalign_for("grad") == 1);
  CHECK(f.tensors[3].misalign_for("weight") == 0);
}

TEST_CASE("text that is not JSON is reported with its line and a caret") {
  std::string e = error_of("{\"name\": \"n\",\n  \"tensors\": [,]}");
  CHECK(has(e, "x.json:2:15: error: not JSON"));
  CHECK(has(e, "^"));
  CHECK(has(error_of(""), "x.json:1:1: error: not JSON"));
}

TEST_CASE("mistakes are named with their tensor") {
  CHECK(has(error_of("[]"), "a layout is an object"));
  CHECK(has(error_of(R"({"tensors": []})"), "the layout has no \"name\": add one, as in"));
  CHECK(has(error_of(R"({"name": 1, "tensors": []})"), "\"name\" must be a string"));
  CHECK(has(error_of(R"({"name": "n", "tensors": [{"shape": [1]}]})"),
            "tensor entry 0: the tensor has no \"name\""));
  CHECK(has(error_of(R"({"name": "n"})"), "\"tensors\" must be an array"));
  CHECK(has(error_of(R"({"name": "n", "tensors": [7]})"), "tensor entry 0"));
  CHECK(has(error_of(in_tensor(R"("shap": [1])")), "there is no field \"shap\""));
  CHECK(has(error_of(in_tensor(R"("shape": 5)")), "tensor \"t\": \"shape\" must be an array"));
  CHECK(has(error_of(in_tensor(R"("shape": [-1])")), "must be a whole number, 0 or more"));
  CHECK(has(error_of(in_tensor(R"("shape": [1.5])")), "must be a whole number"));
  CHECK(has(error_of(in_tensor(R"("shape": [4294967296, 4294967296])")), "more than"));
  CHECK(has(error_of(in_tensor(R"("shape": [1], "group": -1)")), "\"group\" must be"));
  CHECK(has(error_of(in_tensor(R"("shape": [1], "count": 99999999)")), "at most"));
  CHECK(has(error_of(in_tensor(R"("shape": [1], "dtypes": {"grad": "f8"})")),
            "the dtype of \"grad\" must be one of"));
  CHECK(has(error_of(in_tensor(R"("shape": [1], "misalign": "x")")), "\"misalign\" must be"));
}

TEST_CASE("a layout takes memory in proportion to its text") {
  for (std::string unit : {"[", "{\"name\":"}) {
    std::string text;
    while (text.size() < 4'000'000) text += unit;
    for (const std::string& layout : {text, "{\"tensors\": " + text}) {
      LittleMemory room(size_t{64} << 20);
      CHECK(has(error_of(layout),
                "x.json: error: a layout has no arrays and objects in one another"));
    }
  }
  LittleMemory room(size_t{64} << 20);
  CHECK(
      has(error_of(R"({"name": "n", "tensors": [{"name": "t", "shape": [1], "count": 16000000}]})"),
          "\"count\" is 16000000; it can be at most 131072"));
  std::string many = R"({"name": "t", "shape": [1], "count": 131072})";
  std::string two = R"({"name": "n", "tensors": [)" + many + "," + many + "]}";
  CHECK(has(error_of(two), "the counts of a layout make at most 131072 tensors"));
}

TEST_CASE("a size of 0 is one even beside sizes that would overflow") {
  LayoutFile f = parse_layout(in_tensor(R"("shape": [17592186044416, 0])"));
  CHECK(f.tensors[0].size == 0);
}

TEST_CASE("a layout takes what concerns the program, and its storage types in order") {
  LayoutFile f = parse_layout(R"({"name": "n", "tensors": [
    {"name": "a", "shape": [3], "group": 1, "dtypes": {"grad": "f32", "other": "bf16"}},
    {"name": "b", "shape": [4]}]})");
  RecipeOptions o;
  o.grad = DTypeSet(DType::f16) | DType::f32;
  Program p = make_recipe("adamw", o);
  Layout layout = make_layout(f, p);
  CHECK(layout.group_count() == 2);
  CHECK(layout.tensors()[0].dtypes.at("grad") == DType::f32);
  CHECK(layout.tensors()[0].dtypes.count("other") == 0);
  CHECK(layout.tensors()[1].dtypes.at("grad") == DType::f16);  // the first that it allows
  CHECK(make_layout(f, p, {{"grad", DType::f32}}).tensors()[1].dtypes.at("grad") == DType::f32);
  CHECK_THROWS_WITH_AS(make_layout(f, make_recipe("adamw", {.grad = DType::bf16})),
                       "tensor 'a' of layout n: @grad of step @adamw cannot be stored as f32",
                       Error);
}

TEST_CASE("every layout of the samples can be read") {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(STEPFUSE_SOURCE_DIR "/samples/layouts")) {
    if (entry.path().extension() != ".json") continue;
    LayoutFile f = read_layout_file(entry.path().string());
    CHECK(f.name == entry.path().stem());
    CHECK(!f.tensors.empty());
    ++files;
  }
  CHECK(files >= 9);
}

TEST_CASE("the models have their parameters") {
  Program p = make_recipe("adamw", {});
  CHECK(make_layout(sample("resnet50"), p).element_count() == 25'557'032);
  CHECK(make_layout(sample("gpt2"), p).element_count() == 124'439'808);
  CHECK(make_layout(sample("tiny_10000"), p).size() == 10'000);
}

TEST_CASE("a file that cannot be read is named") {
  CHECK_THROWS_WITH_AS(read_layout_file("/nonexistent/x.json"),
                       "cannot read /nonexistent/x.json: No such file or directory", Error);
}

TEST_CASE("the squarest matrix has exactly the elements") {
  auto columns = [](uint64_t elements) { return squarest_matrix(elements).tensors[0].columns; };
  CHECK(squarest_matrix(100'000'000).tensors[0].size == 100'000'000);
  CHECK(columns(100'000'000) == 10'000);
  CHECK(columns(4) == 2);
  CHECK(columns(12) == 4);
  for (uint64_t vector : {0, 1, 2, 3, 7919}) CHECK(columns(vector) == 0);
}
