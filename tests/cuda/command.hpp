// Runs shell commands as a user would. Knows only std.
#pragma once

#include <string>
#include <vector>

namespace stepfuse::testing {

std::string quoted(const std::vector<std::string>& words);
// The output of the command in a shell, errors included.
std::string output_of(const std::string& command);
// With STEPFUSE_TEST_REAL_GPU=1, commands run on this machine's GPU.
bool on_real_gpu();
// Environment variables that make the fake driver the command's libcuda.so.1; none on a real GPU.
std::string on_fake_driver();

}  // namespace stepfuse::testing
