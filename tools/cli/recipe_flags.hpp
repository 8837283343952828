// The recipes' options as command line flags, the same for every verb. Knows CLI11 and the recipes'
// option table.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include <stepfuse/recipes.hpp>

namespace stepfuse::cli {

// Option name -> value, for those that were given; text, so that the table decides what it means.
using RecipeValues = std::map<std::string, std::string>;

// `--clip` may stand alone or have a value after it; a parser cannot know that `adamw` in
// `--clip adamw` is no value. The table does: such words become `--clip=l2`, flags `--master=true`.
std::vector<std::string> normalise_recipe_flags(std::vector<std::string> words);

void add_recipe_flags(CLI::App& verb, RecipeValues& values);

// "--clip[=none|l2]": how an option is written.
std::string recipe_option_usage(const RecipeOption& row);

// Throws Error{usage} for a value that an option does not have.
RecipeOptions recipe_options(const RecipeValues& values);

// "--grad=f16 --master", what differs from a recipe without options, in the table's order.
std::string describe(const RecipeOptions& options);

}  // namespace stepfuse::cli
