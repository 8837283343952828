// Suggestions for words that are not options of stepfuse, such as options of similar tools. Knows
// CLI11, recipes and their arguments.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

namespace stepfuse::cli {

// The error for the first word that the verb does not accept.
std::string explain_extra(const CLI::App& verb, const std::vector<std::string>& words);

// "write --clip=l2 --set max_norm=1.0" if the value of --clip is a number, otherwise "".
std::string hint_for_clip(const std::string& value);

// The options that give the recipe this argument, as in "; add --clip", or "" if no option does.
std::string hint_for_argument(const std::string& recipe, const std::string& argument);

}  // namespace stepfuse::cli
