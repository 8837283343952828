// The recipes' options as command line flags, the same for every verb. Knows CLI11 and the recipes'
// option table.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include <stepfuse/recipes.hpp>

namespace stepfuse::cli {

// Option names and values as given. Values are text; the table interprets them.
using RecipeValues = std::map<std::string, std::string>;

// `--clip` may stand alone or have a value after it. A parser cannot tell that `adamw` in `--clip
// adamw` is not its value, but the table can: it rewrites such words to `--clip=l2`, and flags to
// `--master=true`.
std::vector<std::string> normalise_recipe_flags(std::vector<std::string> words);

void add_recipe_flags(CLI::App& verb, RecipeValues& values);

// The spelling of an option in the help, as in "--clip[=none|l2]".
std::string recipe_option_usage(const RecipeOption& row);

// Throws Error{usage} for a value that the option does not accept.
RecipeOptions recipe_options(const RecipeValues& values);

// The differences from a recipe without options, in the table's order, as in "--grad=f16 --master".
std::string describe(const RecipeOptions& options);

}  // namespace stepfuse::cli
