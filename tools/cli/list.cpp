// `stepfuse list`: the recipes and their options, or all that one takes. Knows recipes and formulas.
#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/recipes.hpp>

#include "ir/formula/resolve.hpp"
#include "ir/recipes/arg_meaning.hpp"
#include "tools/cli/source.hpp"
#include "tools/cli/table.hpp"
#include "tools/cli/verbs.hpp"
#include "tools/workload/text_file.hpp"

namespace stepfuse::cli {
namespace {

struct ListArguments {
  SourceArguments source;
  bool text = false;
};

constexpr std::string_view kFooter = R"(Examples:
  stepfuse list
  stepfuse list adamw --clip     its arguments with defaults, its buffers, states and reports
  stepfuse list adamw --text     its formula, to start your own optimizer from
  stepfuse dump adamw            its step, as text)";

std::string usage_of(const RecipeOption& row) {
  if (row.values.empty()) return fmt::format("--{}", row.name);
  std::string values = fmt::format("{}", fmt::join(row.values, "|"));
  return row.bare.empty() ? fmt::format("--{} {}", row.name, values)
                          : fmt::format("--{}[={}]", row.name, values);
}

int list() {
  Table recipes;
  for (const RecipeInfo& r : list_recipes()) {
    recipes.row({std::string(r.name), std::string(r.help)});
  }
  Table options;
  for (const RecipeOption& row : recipe_option_table()) {
    std::string help(row.help);
    if (!row.values.empty()) {
      std::string fallback = row.get(RecipeOptions{});
      help += fallback.empty() ? "" : fmt::format(" [{}]", fallback);
    }
    options.row({usage_of(row), help});
  }
  fmt::print("Recipes\n{}\nOptions of every recipe, for every verb [default]\n{}",
             recipes.text("  ", Table::Align::left), options.text("  ", Table::Align::left));
  return kOk;
}

std::string bracketed(std::string_view dtype, Domain domain) {
  return fmt::format("{}{}{}", info(domain).open, dtype, info(domain).close);
}

std::string type_text(const Buffer& b) {
  std::string types;
  for (int t = 0; t < kDTypeCount; ++t) {
    auto d = static_cast<DType>(t);
    if (b.dtypes.contains(d)) types += fmt::format("{}{}", types.empty() ? "" : "|", name(d));
  }
  return types;
}

std::string_view access_text(Access a) {
  return a == Access::in ? "read" : a == Access::out ? "written" : "updated";
}

// What a step of one recipe keeps and takes.
void describe(const Program& p, const Optimizer* optimizer) {
  auto meaning = [&](std::string_view name) {
    std::string_view said = optimizer ? formula::meaning_of(optimizer->formula(), name) : "";
    return std::string(said.empty() ? arg_meaning(name) : said);
  };
  Table args, buffers, states, reports, options;
  for (const Arg& a : p.args) {
    std::string value = a.fallback ? literal_text(*a.fallback, a.type.dtype) : "must be given";
    args.row({a.name, bracketed(name(a.type.dtype), a.type.domain), value, meaning(a.name)});
  }
  for (const Buffer& b : p.buffers) {
    std::string begins = b.init == Buffer::Init::zero ? "from 0"
                         : b.init == Buffer::Init::copy
                             ? "from " + p.buffers[static_cast<size_t>(b.init_from)].name
                             : "";
    buffers.row(
        {b.name, type_text(b), std::string(access_text(b.access)), begins, meaning(b.name)});
  }
  for (const State& s : p.states) {
    Table& to = s.report ? reports : states;
    to.row({s.name, bracketed(name(s.type.dtype), s.type.domain), s.shared ? "shared" : "",
            meaning(s.name)});
  }
  auto print = [](std::string_view title, const Table& table) {
    std::string text = table.text("  ", Table::Align::left);
    if (!text.empty()) fmt::print("\n{}\n{}", title, text);
  };
  print("Arguments: name, type, default", args);
  print("Buffers", buffers);
  print("States", states);
  print("Reports", reports);
  if (optimizer == nullptr) return;
  for (const formula::Statement* s : formula::options_of(optimizer->formula())) {
    auto table = recipe_option_table();
    bool has_flag =
        std::any_of(table.begin(), table.end(), [&](auto& r) { return r.name == s->name; });
    options.row({fmt::format(fmt::runtime(has_flag ? "--{}" : "--with={}"), s->name), s->help});
  }
  if (formula::asks_for_profile(optimizer->formula(), "apex")) {
    options.row({"--profile=apex", "Apex FusedAdam's formula and rounding"});
  }
  print("Options of its own, beside those of every recipe", options);
}

int list_one(const ListArguments& a) {
  std::optional<Optimizer> optimizer =
      a.source.what.ends_with(".opt")
          ? parse_optimizer(read_text_file(a.source.what), a.source.what)
          : built_in_optimizer(a.source.what);
  if (a.text) {
    if (!optimizer) {
      throw Error(ErrorKind::usage,
                  fmt::format("{} has no formula; stepfuse dump {} prints its step", a.source.what,
                              a.source.what));
    }
    fmt::print("{}", optimizer->text());
    return kOk;
  }
  Source source = load_source(a.source);
  fmt::print("{}", source.title);
  if (optimizer) fmt::print(": {}", optimizer->help());
  fmt::print("\n");
  describe(source.program, optimizer ? &*optimizer : nullptr);
  return kOk;
}

}  // namespace

void add_list(CLI::App& app, Action& action) {
  auto a = std::make_shared<ListArguments>();
  CLI::App* verb =
      app.add_subcommand("list", "List recipes, or one recipe's arguments and buffers");
  add_source(*verb, a->source, false);
  verb->get_option("source")->required(false);
  verb->add_flag("--text", a->text, "Print the optimizer's formula, to start your own from");
  verb->footer(std::string(kFooter));
  verb->callback(
      [&action, a] { action = [a] { return a->source.what.empty() ? list() : list_one(*a); }; });
}

}  // namespace stepfuse::cli
