// `stepfuse list`: all recipes and their options, or the details of one. Knows recipes and
// formulas.
#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/recipes.hpp>

#include "ir/formula/resolve.hpp"
#include "ir/recipes/arg_meaning.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/source.hpp"
#include "tools/cli/table.hpp"
#include "tools/cli/verbs.hpp"
#include "tools/workload/text_file.hpp"

namespace stepfuse::cli {
namespace {

struct ListArguments {
  SourceArguments source;
  bool text = false;
  bool json = false;
};

constexpr std::string_view kListFooter = R"(Examples:
  stepfuse list
  stepfuse list adamw --clip     its arguments with defaults, its buffers, states and reports
  stepfuse list --json           the same for programs, also with a recipe
  stepfuse list adamw --text     its formula, to start your own optimizer from
  stepfuse dump adamw            its step, as text)";

Json list_json() {
  Json recipes = Json::array(), options = Json::array();
  for (const RecipeInfo& r : list_recipes()) {
    recipes.push_back({{"name", r.name}, {"help", r.help}});
  }
  for (const RecipeOption& row : recipe_option_table()) {
    Json o = {{"name", row.name}, {"values", row.values}, {"help", row.help}};
    if (!row.bare.empty()) o["without_value"] = row.bare;
    std::string fallback = row.get(RecipeOptions{});
    if (!fallback.empty()) o["default"] = fallback;
    options.push_back(std::move(o));
  }
  return {{"recipes", recipes}, {"options", options}};
}

int list(bool json) {
  if (json) {
    print_json(list_json());
    return kOk;
  }
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
    options.row({recipe_option_usage(row), help});
  }
  fmt::print("Recipes\n{}\nOptions of every recipe, for every verb [default]\n{}",
             recipes.text("  ", Table::Align::left), options.text("  ", Table::Align::left));
  return kOk;
}

std::string bracketed(std::string_view dtype, Granularity granularity) {
  return fmt::format("{}{}{}", info(granularity).open, dtype, info(granularity).close);
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

// A step's arguments, buffers and states, by section.
Json describe(const Program& p, const Optimizer* optimizer) {
  auto meaning = [&](std::string_view name) {
    std::string_view said = optimizer ? formula::meaning_of(optimizer->formula(), name) : "";
    return std::string(said.empty() ? arg_meaning(name) : said);
  };
  auto empty = Json::array();
  Json all = {{"arguments", empty},
              {"buffers", empty},
              {"states", empty},
              {"reports", empty},
              {"options", empty}};
  for (const Arg& a : p.args) {
    std::string value = a.fallback ? literal_text(*a.fallback, a.type.dtype) : "must be given";
    all["arguments"].push_back({{"name", a.name},
                                {"type", bracketed(name(a.type.dtype), a.type.at)},
                                {"default", value},
                                {"meaning", meaning(a.name)}});
  }
  for (const Buffer& b : p.buffers) {
    std::string begins = b.init == Buffer::Init::zero ? "from 0"
                         : b.init == Buffer::Init::copy
                             ? "from " + p.buffers[static_cast<size_t>(b.init_from)].name
                             : "";
    all["buffers"].push_back({{"name", b.name},
                              {"type", type_text(b)},
                              {"access", access_text(b.access)},
                              {"initial", begins},
                              {"meaning", meaning(b.name)}});
  }
  for (const State& s : p.states) {
    all[s.report ? "reports" : "states"].push_back(
        {{"name", s.name},
         {"type", bracketed(name(s.type.dtype), s.type.at)},
         {"shared", s.shared ? "shared" : ""},
         {"meaning", meaning(s.name)}});
  }
  if (optimizer == nullptr) return all;
  for (const formula::Statement* s : formula::options_of(optimizer->formula())) {
    auto table = recipe_option_table();
    bool has_flag =
        std::any_of(table.begin(), table.end(), [&](auto& r) { return r.name == s->name; });
    all["options"].push_back(
        {{"name", fmt::format(fmt::runtime(has_flag ? "--{}" : "--with={}"), s->name)},
         {"meaning", s->help}});
  }
  if (formula::asks_for_profile(optimizer->formula(), "apex")) {
    all["options"].push_back(
        {{"name", "--profile=apex"}, {"meaning", "Apex FusedAdam's formula and rounding"}});
  }
  return all;
}

void print_description(const Json& all) {
  for (auto [section, title] :
       {std::pair("arguments", "Arguments: name, type, default"), std::pair("buffers", "Buffers"),
        std::pair("states", "States"), std::pair("reports", "Reports"),
        std::pair("options", "Options of its own, in addition to those of every recipe")}) {
    Table table;
    for (const Json& row : all[section]) {
      std::vector<std::string> cells;
      for (const Json& cell : row) cells.push_back(cell.get<std::string>());
      table.row(std::move(cells));
    }
    if (!table.empty()) fmt::print("\n{}\n{}", title, table.text("  ", Table::Align::left));
  }
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
  Json all = describe(source.program, optimizer ? &*optimizer : nullptr);
  if (a.json) {
    all["title"] = source.title;
    all["help"] = optimizer ? std::string(optimizer->help()) : "";
    print_json(all);
    return kOk;
  }
  fmt::print("{}", source.title);
  if (optimizer) fmt::print(": {}", optimizer->help());
  fmt::print("\n");
  print_description(all);
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
  verb->add_flag("--json", a->json, "Print JSON");
  verb->footer(std::string(kListFooter));
  verb->callback([&action, a] {
    action = [a] { return a->source.what.empty() ? list(a->json) : list_one(*a); };
  });
}

}  // namespace stepfuse::cli
