// --set NAME=VALUE, checked against the step's arguments. Knows CLI11 and programs.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "tools/workload/runner.hpp"

namespace stepfuse::cli {

void add_settings(CLI::App& verb, std::vector<std::string>& set);

// Throws Error{usage} for text that is not a setting, for a name that the step does not have, and
// for an unset argument without a default, which would silently be 0.
std::vector<ArgSetting> parse_settings(const std::vector<std::string>& set, const Program& program);

}  // namespace stepfuse::cli
