// `stepfuse run RECIPE --backend=cuda --digest` on the fake driver prints the digest of
// --backend=interpret, over a pairwise covering set of recipe options, layouts, inputs and forms.
// Knows all layers.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/error.hpp>

#include "compiler/cuda/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "tests/cuda/command.hpp"
#include "tests/cuda/fake_device.hpp"
#include "tests/support/covering_file.hpp"
#include "tests/support/recipe_options.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/signatures.hpp"
#include "tools/workload/layout_file.hpp"

#ifdef STEPFUSE_CLI_BINARY
using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// Small, because every row is executed thread by thread.
const std::map<std::string, std::string> kLayouts = {
    {"odd", R"({"name": "odd", "tensors": [
       {"name": "a", "shape": [3001], "misalign": 1}, {"name": "b", "shape": [0]},
       {"name": "c", "shape": [1], "group": 1}, {"name": "d", "shape": [16390], "misalign": {"grad": 3}},
       {"name": "e", "shape": [247], "group": 1}, {"name": "f", "shape": [256], "misalign": 2},
       {"name": "alone", "shape": [40], "group": 2}]})"},
    {"tiny",
     R"({"name": "tiny", "tensors": [{"name": "t", "shape": [7], "count": 60, "misalign": 1}]})"},
    {"mixed", R"({"name": "mixed", "tensors": [
       {"name": "a", "shape": [3001], "dtypes": {"grad": "f16"}},
       {"name": "b", "shape": [70], "dtypes": {"grad": "bf16"}, "misalign": 1},
       {"name": "c", "shape": [900], "group": 1, "dtypes": {"grad": "f32"}},
       {"name": "d", "shape": [5], "dtypes": {"grad": "f16"}}]})"},
    {"single", R"({"name": "single", "tensors": [{"name": "t", "shape": [20000]}]})"},
    // A step can transpose matrices of these sizes, and has whole blocks in their rows.
    {"matrices", R"({"name": "matrices", "tensors": [
       {"name": "a", "shape": [64, 256], "misalign": 4}, {"name": "b", "shape": [0, 256]},
       {"name": "c", "shape": [32, 256], "group": 1}]})"},
    {"none", R"({"name": "none", "tensors": []})"}};

class Layouts {
 public:
  Layouts() {
    for (const auto& [name, text] : kLayouts) std::ofstream(path(name)) << text;
  }
  std::string path(const std::string& name) const { return folder_.path() / (name + ".json"); }

 private:
  ScratchFolder folder_;
};

std::vector<Factor> all_factors() {
  std::vector<Factor> factors = recipe_option_factors();
  factors.push_back({"layout", {"odd", "tiny", "mixed", "single", "matrices", "none"}});
  factors.push_back({"inputs", {"normal", "special", "single"}});
  factors.push_back({"form", {"fused", "split", "unfused"}});
  factors.push_back({"observe", {"", "true"}});
  factors.push_back({"moving", {"", "true"}});
  factors.push_back({"absent", {"0", "0.3"}});
  factors.push_back({"blocks", {"", "1", "4"}});
  return factors;
}

Variant variant_of(const Program& program, Form form) {
  std::vector<Signature> signatures = {signature_of(program)};
  return make_variant(optimize(program, signatures), signatures, form);
}

// Options that the program refuses by name give no row.
bool is_possible(const Point& point) {
  try {
    Program program = program_of(point);
    const std::string& layout = point.at("layout");
    make_layout(parse_layout(kLayouts.at(layout)), program);
    if (arranges(program) && layout != "matrices" && layout != "none") return false;
    Variant variant = variant_of(program, *form_from_name(point.at("form")));
    emit_cuda(variant.plan);
    if (point.at("observe").empty()) return true;
    // If the form stores in the phase that would be observed, the step is made in the split form.
    return variant.plan.phases.size() > 1 &&
           variant_of(program, Form::split).plan.phases.size() > 1;
  } catch (const Error&) {
    return false;
  }
}

// NVRTC takes time in proportion to the kernel's text, which contains the step once for each signature.
double compile_cost(const Point& point) {
  Variant variant = variant_of(program_of(point), *form_from_name(point.at("form")));
  size_t signatures = point.at("layout") == "mixed" ? 3 : 1;
  return static_cast<double>(signatures * emit_cuda(variant.plan).size());
}

// The difference between the two backends, or "".
std::string compare(const Point& point, const Layouts& layouts) {
  std::vector<std::string> words = words_of(point);
  Program program = program_of(point);
  for (const char* more : {"run", STEPFUSE_CLI_BINARY}) words.insert(words.begin(), more);
  words.insert(words.end(), {"--layout", layouts.path(point.at("layout")), "--digest", "--vary"});
  words.push_back("--inputs=" + point.at("inputs"));
  words.push_back("--absent=" + point.at("absent"));
  for (const Arg& a : program.args) {
    // These arguments have no default.
    if (a.name == "external_norm") words.insert(words.end(), {"--set", "external_norm=1.5"});
    if (a.name == "external_found_inf")
      words.insert(words.end(), {"--set", "external_found_inf=0"});
    // Below every norm, so that clipping acts.
    if (a.name == "max_norm") words.insert(words.end(), {"--set", "max_norm=0.001"});
    // So that the scale grows within four steps.
    if (a.name == "growth_interval") words.insert(words.end(), {"--set", "growth_interval=2"});
  }
  std::string expected = output_of("STEPFUSE_CACHE=off" + quoted(words) + " --backend=interpret");
  words.push_back("--form=" + point.at("form"));
  if (!point.at("observe").empty()) words.push_back("--observe");
  if (!point.at("moving").empty()) words.push_back("--moving");
  // With few blocks, each works on many tensors in succession.
  std::string grid = point.at("blocks").empty()
                         ? ""
                         : "STEPFUSE_FAKE_SMS=1 STEPFUSE_FAKE_BLOCKS_PER_SM=" + point.at("blocks");
  std::string actual = output_of(fmt::format("STEPFUSE_CACHE=off {} {}{} --backend=cuda", grid,
                                             on_fake_driver(), quoted(words)));
  bool digest = expected.size() == 33 &&
                expected.find_first_not_of("0123456789abcdef\n") == std::string::npos;
  if (digest && actual == expected) return "";
  return fmt::format("{}\n interpret: {} cuda: {}", quoted(words), expected, actual);
}

}  // namespace

TEST_CASE(
    "the command line's digest on a CUDA device is the interpreter's, for every value of every "
    "option") {
  if (!on_real_gpu()) STEPFUSE_NEEDS_FAKE_DEVICE();
  std::vector<Factor> factors = all_factors();
  CoveringSet set = kept_covering_set(
      "cuda_recipes", factors, [&](const Row& row) { return is_possible(point_of(factors, row)); },
      5);
  auto cost = [&](const Row& row) { return compile_cost(point_of(factors, row)); };
  // ptx.recipe_kernels executes kernels for more pairs of options, but not on a real GPU.
  std::vector<Row> rows = on_real_gpu() ? rows_to_run(set) : cheap_rows(set, cost, 0.5);
  CHECK(rows.size() > 20);
  Layouts layouts;
  std::vector<std::string> faults = faults_of(
      rows.size(), [&](size_t k) { return compare(point_of(factors, rows[k]), layouts); });
  for (const std::string& f : faults) FAIL_CHECK(f);
  MESSAGE(fmt::format("{} of {} rows, {} of {} pairs of values", rows.size(), set.rows.size(),
                      pairs_in(rows), set.covered));
}
#endif
