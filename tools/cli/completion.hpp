// Completion of a command line. Knows CLI11, the recipes and the help's topics.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

namespace stepfuse::cli {

// What the last of these words, which may be empty, can become. Nothing where a file's name is due.
std::vector<std::string> complete(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace stepfuse::cli
