// The built-in recipes: interpreter and CPU give the same digest over a pairwise covering set of
// recipe options, layouts, inputs, forms and threads. Knows all layers.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/recipes.hpp>

#include "compiler/schedule/analysis.hpp"
#include "runtime/cpu/llvm_compiler.hpp"
#include "tests/source_dir.hpp"
#include "tests/support/covering_file.hpp"
#include "tests/support/long_run.hpp"
#include "tests/support/random_data.hpp"
#include "tools/workload/runner.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr uint64_t kSmall = 2500;  // elements

class Recipes {
 public:
  Recipes() {
    add("recipe", {});
    for (const RecipeInfo& r : list_recipes()) factors_[0].values.emplace_back(r.name);
    for (const RecipeOption& o : recipe_option_table()) {
      if (o.name != "store") add_option(o);  // its aliases set the same
    }
    options_end_ = factors_.size();
    add("layout", {"sizes", "misaligned", "mixed_dtypes", "many_groups", "tiny"});
    add("inputs", {"normal", "special"});
    add("form", {"fused", "split", "unfused"});
    add("threads", {"1", "2"});
    add("absent", {"none", "some"});
    add("gradients", {"fixed", "moving"});
    add("handed over", {"at once", "in parts"});
    for (const std::string& name : factor("layout").values) layouts_[name] = read_layout(name);
  }

  const std::vector<Factor>& factors() const { return factors_; }

  // Options that contradict each other and layouts that do not fit are refused by name.
  bool valid(const Row& row) const {
    bool in_parts = value(row, "handed over") == "in parts";
    if (in_parts && value(row, "form") == "unfused") return false;
    try {
      Program p = program(row);
      make_layout(layout_of(row, p), p);
      // A step can be observed if a store waits for a reduction.
      std::vector<int> levels = reduction_levels(p);
      bool two_phases = false;
      for (ValueId v = 0; v < p.size(); ++v) {
        two_phases |= p[v].op == Op::store && levels[static_cast<size_t>(v)] > 0;
      }
      return two_phases || !in_parts;
    } catch (const Error&) {
      return false;
    }
  }

  struct Digests {
    std::string expected;
    std::string actual;
  };
  // The interpreter's time grows with the number of elements. So a seventh of the tensors keep their sizes, different
  // ones for each `turn`, and the others are cut to about kSmall.
  Digests run(const Row& row, size_t turn) const {
    Program p = program(row);
    RunPlan plan = plan_of(row, p);
    plan.device = Device::interpreter();
    Digests d;
    LayoutFile layout = layout_of(row, p, turn);
    d.expected = run_workload(p, layout, {}, plan).digest;
    plan.device = Device::cpu(std::stoi(value(row, "threads")));
    d.actual = run_workload(p, layout, {}, plan).digest;
    return d;
  }

  bool is_fused(const Row& row) const { return value(row, "form") == "fused"; }

  std::string describe(const Row& row) const {
    std::string out;
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i] == 0 && i > 0 && i < options_end_) continue;
      out += fmt::format("{}{}={}", out.empty() ? "" : ", ", factors_[i].name,
                         factors_[i].values[static_cast<size_t>(row[i])]);
    }
    return out;
  }

 private:
  void add(std::string name, std::vector<std::string> values) {
    factors_.push_back({std::move(name), std::move(values)});
  }
  void add_option(const RecipeOption& o) {
    std::string standard = o.get(RecipeOptions{});
    // "" stands for "not given".
    std::vector<std::string> values = {standard};
    std::vector<std::string> all(o.values.begin(), o.values.end());
    if (all.empty()) all = {"false", "true"};
    if (o.name == "with" && all[0] == "NAME") all.clear();  // no built-in formula has other options
    if (o.name == "grad") all.insert(all.end(), {"f16|f32", names(kFloatStorage, "|")});
    for (const std::string& v : all) {
      if (v != standard) values.push_back(v);
    }
    add(std::string(o.name), values);
  }

  const Factor& factor(std::string_view name) const { return factors_[index(name)]; }
  size_t index(std::string_view name) const {
    size_t i = 0;
    while (factors_[i].name != name) ++i;
    return i;
  }
  const std::string& value(const Row& row, std::string_view name) const {
    size_t i = index(name);
    return factors_[i].values[static_cast<size_t>(row[i])];
  }

  Program program(const Row& row) const {
    RecipeOptions options;
    for (size_t i = 1; i < options_end_; ++i) {
      const std::string& v = factors_[i].values[static_cast<size_t>(row[i])];
      if (row[i] != 0) set_option(options, factors_[i].name, v);
    }
    return make_recipe(value(row, "recipe"), options);
  }

  RunPlan plan_of(const Row& row, const Program& p) const {
    RunPlan plan;
    plan.steps = 4;  // special gradients: mild, not finite, mild, huge
    plan.form = value(row, "form") == "fused"   ? Form::fused
                : value(row, "form") == "split" ? Form::split
                                                : Form::unfused;
    plan.inputs.seed = 7;
    plan.inputs.inputs =
        value(row, "inputs") == "special" ? stepfuse::Inputs::special : stepfuse::Inputs::normal;
    plan.inputs.absent = value(row, "absent") == "some" ? 0.3 : 0;
    plan.inputs.moving = value(row, "gradients") == "moving";
    plan.observe = value(row, "handed over") == "in parts";
    plan.vary_args = true;
    if (p.find_arg("external_norm") >= 0) plan.args.push_back({"external_norm", -1, 1.5});
    if (p.find_arg("external_found_inf") >= 0) plan.args.push_back({"external_found_inf", -1, 0});
    // So that the scale grows within few steps.
    if (p.find_arg("growth_interval") >= 0) plan.args.push_back({"growth_interval", -1, 2});
    return plan;
  }

  // Steps with blocks and rows need whole blocks in each row; what is transposed has whole squares.
  LayoutFile layout_of(const Row& row, const Program& p, std::optional<size_t> turn = {}) const {
    LayoutFile layout = layouts_.at(value(row, "layout"));
    for (size_t i = 0; turn && i < layout.tensors.size(); ++i) {
      TensorEntry& t = layout.tensors[i];
      if ((i + *turn) % 7 == 0 || t.size <= kSmall) continue;
      t.size = kSmall + i;
      if (t.columns != 0) t.size = std::max<uint64_t>(1, t.size / t.columns) * t.columns;
    }
    if (arranges(p)) {
      for (size_t i = 0; i < layout.tensors.size(); ++i) {
        TensorEntry& t = layout.tensors[i];
        LayoutTensor fitted{.size = t.size, .columns = t.columns};
        fit_orders(p, &fitted, i);
        t.size = turn && i >= 40 ? 0 : fitted.size;  // whole squares are large
        t.columns = fitted.columns;
        t.misalign -= t.misalign % 4;
        for (auto& [buffer, elements] : t.misalign_of) elements -= elements % 4;
      }
      return layout;
    }
    bool has_blocks = std::any_of(p.buffers.begin(), p.buffers.end(), [](const Buffer& b) {
      return block_of(b.at) > 1 && !needs_rows(b.at);
    });
    if (!has_blocks || !has_rows(p)) return layout;
    for (TensorEntry& t : layout.tensors) {
      if (t.columns == 0 || t.size == 0) continue;
      t.columns = (t.columns + kLargestBlock - 1) / kLargestBlock * kLargestBlock;
      t.size = std::max(t.columns, t.size - t.size % t.columns);
    }
    return layout;
  }

  // Truncated, because the interpreter runs each layout many times.
  static LayoutFile read_layout(const std::string& name) {
    std::string file = name == "tiny" ? "tiny_10000" : name;
    LayoutFile layout =
        read_layout_file(fmt::format("{}/samples/layouts/{}.json", STEPFUSE_SOURCE_DIR, file));
    if (name == "tiny") layout.tensors.resize(200);
    for (size_t i = 0; i < layout.tensors.size(); ++i) {
      TensorEntry& t = layout.tensors[i];
      t.size = std::min<uint64_t>(t.size, 40'000);
      if (i % 2 == 1 && t.columns == 0) t.columns = 1 + t.size / 5;
      if (t.columns != 0) t.size -= t.size % t.columns;  // whole rows
    }
    return layout;
  }

  std::vector<Factor> factors_;
  size_t options_end_ = 0;
  std::map<std::string, LayoutFile> layouts_;
};

}  // namespace

TEST_CASE("recipes: interpreter and CPU agree over a pairwise covering set") {
  Recipes recipes;
  CoveringSet set = kept_covering_set(
      "cpu_recipes", recipes.factors(), [&](const Row& row) { return recipes.valid(row); }, 1);
  std::vector<Row> rows = rows_to_run(set);
  MESSAGE(fmt::format("{} of {} rows that cover {} pairs of values", rows.size(), set.rows.size(),
                      set.covered));
  // Every value occurs in some row.
  for (size_t f = 0; f < recipes.factors().size(); ++f) {
    for (size_t v = 0; v < recipes.factors()[f].values.size(); ++v) {
      CAPTURE(recipes.factors()[f].name);
      CAPTURE(recipes.factors()[f].values[v]);
      CHECK(std::any_of(rows.begin(), rows.end(),
                        [&](const Row& row) { return row[f] == static_cast<int>(v); }));
    }
  }
  if (!llvm_status().available) {
    MESSAGE("not run: ", llvm_status().problem);
    return;
  }
  // Fused steps are compiled as users compile them. The other forms are compiled quickly, except by the long run.
  std::vector<size_t> fused, others;
  for (size_t k = 0; k < rows.size(); ++k) {
    (is_long_run() || recipes.is_fused(rows[k]) ? fused : others).push_back(k);
  }
  CHECK(!fused.empty());
  for (bool quick : {false, true}) {
    const std::vector<size_t>& chosen = quick ? others : fused;
    if (quick) ::setenv("STEPFUSE_CPU_CODE", "quick", 1);
    std::vector<std::string> faults = faults_of(chosen.size(), [&](size_t i) -> std::string {
      const Row& row = rows[chosen[i]];
      try {
        Recipes::Digests d = recipes.run(row, chosen[i]);
        return d.expected == d.actual ? "" : recipes.describe(row) + ": digests differ";
      } catch (const std::exception& e) {
        return fmt::format("{}: {}", recipes.describe(row), e.what());
      }
    });
    ::unsetenv("STEPFUSE_CPU_CODE");
    for (const std::string& f : faults) FAIL_CHECK(f);
  }
}
