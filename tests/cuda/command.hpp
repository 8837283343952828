// Commands as a user gives them to a shell. Knows only std.
#pragma once

#include <string>
#include <vector>

namespace stepfuse::testing {

std::string quoted(const std::vector<std::string>& words);
// What the shell prints for the command, errors included.
std::string output_of(const std::string& command);
// The variables that make a command's libcuda.so.1 the fake one.
std::string on_fake_driver();

}  // namespace stepfuse::testing
