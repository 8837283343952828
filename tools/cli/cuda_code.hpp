// CUDA text and machine code of a schedule for a named GPU, which need not be here. Knows the
// runtime's way from a schedule to machine code.
#pragma once

#include <string>

#include "compiler/schedule.hpp"
#include "runtime/cuda/step_code.hpp"

namespace stepfuse::cli {

// "sm_90", "compute_90" or "90" -> 90; throws Error{usage}.
int parse_arch(const std::string& text);

// The text that is tried first, and the machine code as a device of that arch would get it.
std::string cuda_text(const Schedule& schedule, int arch);
cuda::StepCode compile_cuda(const Schedule& schedule, int arch, cuda::CodeKind kind);

}  // namespace stepfuse::cli
