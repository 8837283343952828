// --set NAME=VALUE, checked against the step's arguments. Knows CLI11 and programs.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "tools/workload/runner.hpp"

namespace stepfuse::cli {

void add_settings(CLI::App& verb, std::vector<std::string>& set);

// Throws Error{usage} for what is no setting, for a name that the step does not have, and for an
// argument without a default that is not set: it would silently be 0.
std::vector<ArgSetting> parse_settings(const std::vector<std::string>& set, const Program& program);

}  // namespace stepfuse::cli
