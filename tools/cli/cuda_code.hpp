// Command line options that select kernels: form, GPU, processor level. Knows CLI11.
#pragma once

#include <string>

#include <CLI/App.hpp>

namespace stepfuse::cli {

struct KernelWords {
  std::string form = "fused";
  std::string arch = "sm_90";
  std::string cuda_options;  // passed to the CUDA emitter; unset choices are ours
  std::string cpu_level = "host";
};
// Adds --form, --arch, --cuda-options and --cpu-level.
void add_kernel_words(CLI::App& verb, KernelWords& words);

// Adds --cuda-options.
void add_cuda_options(CLI::App& verb, std::string& options);

// Parses "sm_90", "compute_90" or "90" as 90; throws Error{usage}.
int parse_arch(const std::string& text);

}  // namespace stepfuse::cli
