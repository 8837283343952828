// The recipes' options as command line flags. Knows CLI11 and the recipes' option table.
#include "tools/cli/recipe_flags.hpp"

#include <algorithm>

#include <CLI/Option.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/error.hpp>

#include "tools/cli/hints.hpp"

namespace stepfuse::cli {
namespace {

const RecipeOption* find(std::string_view word) {
  if (!word.starts_with("--")) return nullptr;
  for (const RecipeOption& row : recipe_option_table()) {
    if (row.name == word.substr(2)) return &row;
  }
  return nullptr;
}

bool is_value(const RecipeOption& row, std::string_view word) {
  return std::find(row.values.begin(), row.values.end(), word) != row.values.end();
}

}  // namespace

std::vector<std::string> normalise_recipe_flags(std::vector<std::string> words) {
  std::vector<std::string> out;
  for (size_t i = 0; i < words.size(); ++i) {
    const RecipeOption* row = find(words[i]);
    if (row == nullptr || row->bare.empty()) {
      out.push_back(std::move(words[i]));
    } else if (i + 1 < words.size() && is_value(*row, words[i + 1])) {
      out.push_back(fmt::format("--{}={}", row->name, words[i + 1]));
      ++i;
    } else {
      out.push_back(fmt::format("--{}={}", row->name, row->bare));
    }
  }
  return out;
}

void add_recipe_flags(CLI::App& verb, RecipeValues& values) {
  for (const RecipeOption& row : recipe_option_table()) {
    std::string name(row.name);
    std::string help(row.help);
    std::string type = fmt::format("{}", fmt::join(row.values, "|"));
    bool joins = row.name == "store";  // --store weight=… --store exp_avg=… is one list
    if (!row.values.empty() && !row.bare.empty()) type = fmt::format("[{}]", type);
    verb.add_option_function<std::string>(
            "--" + name, [&values, name](const std::string& v) { values[name] = v; }, help)
        ->type_name(row.values.empty() ? "" : type)
        ->multi_option_policy(joins ? CLI::MultiOptionPolicy::Join
                                    : CLI::MultiOptionPolicy::TakeLast)
        ->delimiter(joins ? ',' : '\0')
        ->group("");  // listed on a page of its own, not in the verb's help
  }
}

std::string recipe_option_usage(const RecipeOption& row) {
  if (row.values.empty()) return fmt::format("--{}", row.name);
  std::string values = fmt::format("{}", fmt::join(row.values, "|"));
  if (values.size() > 80) values = "NAME";  // the row's help has the names
  return row.bare.empty() ? fmt::format("--{} {}", row.name, values)
                          : fmt::format("--{}[={}]", row.name, values);
}

RecipeOptions recipe_options(const RecipeValues& values) {
  RecipeOptions options;
  for (const auto& [name, value] : values) {
    std::string hint = name == "clip" ? hint_for_clip(value) : "";
    if (!hint.empty()) throw Error(ErrorKind::usage, hint);
    set_option(options, name, value);
  }
  return options;
}

std::string describe(const RecipeOptions& options) {
  std::vector<std::string> parts;
  for (const RecipeOption& row : recipe_option_table()) {
    std::string value = row.get(options);
    if (value == row.get(RecipeOptions{})) continue;
    parts.push_back(row.values.empty() && value == "true"
                        ? fmt::format("--{}", row.name)
                        : fmt::format("--{}={}", row.name, value));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace stepfuse::cli
