// The words on the command line that say which kernels a step gets: form, GPU, processor. Knows CLI11.
#pragma once

#include <string>

#include <CLI/App.hpp>

namespace stepfuse::cli {

struct KernelWords {
  std::string form = "fused";
  std::string arch = "sm_90";
  std::string cuda_options;  // those that are not left to us
  std::string cpu_level = "host";
};
// --form, --arch, --cuda-options and --cpu-level.
void add_kernel_words(CLI::App& verb, KernelWords& words);

// --cuda-options.
void add_cuda_options(CLI::App& verb, std::string& options);

// "sm_90", "compute_90" or "90" -> 90; throws Error{usage}.
int parse_arch(const std::string& text);

}  // namespace stepfuse::cli
