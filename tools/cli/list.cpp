// `stepfuse list`: the recipes and their options. Knows the recipes' tables.
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/recipes.hpp>

#include "tools/cli/table.hpp"
#include "tools/cli/verbs.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kFooter = R"(Examples:
  stepfuse list
  stepfuse dump adamw            what a recipe is, as text to start your own step from)";

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

}  // namespace

void add_list(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("list", "Recipes, one line each, and their options");
  verb->footer(std::string(kFooter));
  verb->callback([&action] { action = list; });
}

}  // namespace stepfuse::cli
