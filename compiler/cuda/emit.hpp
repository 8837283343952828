// The CUDA emitter. It writes the text of a device's kernels for a KernelPlan. Knows the plan.
#pragma once

#include <string>
#include <string_view>

#include "compiler/cuda/options.hpp"
#include "compiler/plan/plan.hpp"

namespace stepfuse {

// Returns the symbol of a kernel by its name in schedule and plan. The launches behind it
// (plan::launches_behind) have the numbers 1, 2, …
std::string cuda_entry_name(std::string_view kernel, int32_t number = 0);

// Returns one self-contained CUDA C++ translation unit (no #include): the prelude and one `extern "C"
// __global__` function per launch of each Kernel of the plan, which takes abi::DeviceContext by value.
// Throws Error{compile} that names what the backend cannot do, and Error{usage} for options that the arch
// does not have.
std::string emit_cuda(const KernelPlan& plan, const CudaOptions& options = {});

}  // namespace stepfuse
