// What the user of another tool meant by a word that is no option here. Knows CLI11, recipes and their
// arguments.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

namespace stepfuse::cli {

// The error for the first word that no option of the verb takes.
std::string explain_extra(const CLI::App& verb, const std::vector<std::string>& words);

// "write --clip=l2 --set max_norm=1.0", if the value of --clip is a number; otherwise "".
std::string hint_for_clip(const std::string& value);

// The options that give this recipe an argument, as in "; add --clip"; "" if there are none.
std::string hint_for_argument(const std::string& recipe, const std::string& argument);

}  // namespace stepfuse::cli
