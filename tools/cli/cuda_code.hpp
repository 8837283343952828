// The words on the command line that say which GPU, and how its kernels are made. Knows CLI11.
#pragma once

#include <string>

#include <CLI/App.hpp>

namespace stepfuse::cli {

// --cuda-options.
void add_cuda_options(CLI::App& verb, std::string& options);

// "sm_90", "compute_90" or "90" -> 90; throws Error{usage}.
int parse_arch(const std::string& text);

}  // namespace stepfuse::cli
