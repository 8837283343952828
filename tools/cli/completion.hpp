// Completion of a command line. Knows CLI11, the recipes and the help's topics.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

namespace stepfuse::cli {

// The completions of the last word, which may be empty. Empty if a file name is expected there.
std::vector<std::string> complete(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace stepfuse::cli
