// CUDA text and machine code of a schedule for a named GPU, which need not be here. Knows the emitter
// and NVRTC's front.
#pragma once

#include <string>

#include "compiler/emit.hpp"
#include "runtime/cuda/nvrtc.hpp"

namespace stepfuse::cli {

// "sm_90", "compute_90" or "90" -> 90; throws Error{usage}.
int parse_arch(const std::string& text);

CudaOptions cuda_options(int arch);
cuda::CompiledCode compile_cuda(const Schedule& schedule, int arch, cuda::CodeKind kind);

}  // namespace stepfuse::cli
