// CUDA text and machine code of a schedule for a named GPU, which need not be here. Knows the
// runtime's way from a schedule to machine code.
#pragma once

#include <string>

#include <CLI/App.hpp>

#include "compiler/schedule/schedule.hpp"
#include "runtime/cuda/step_code.hpp"

namespace stepfuse::cli {

// --cuda-options.
void add_cuda_options(CLI::App& verb, std::string& options);

// "sm_90", "compute_90" or "90" -> 90; throws Error{usage}.
int parse_arch(const std::string& text);

// The text that is tried first for such a device.
std::string cuda_text(const Schedule& schedule, const cuda::CodeTarget& target);

}  // namespace stepfuse::cli
