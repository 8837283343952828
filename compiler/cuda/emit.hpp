// The CUDA emitter: KernelPlan to the text of a device's kernels. Knows the plan.
#pragma once

#include <string>
#include <string_view>

#include "compiler/cuda/options.hpp"
#include "compiler/plan/plan.hpp"

namespace stepfuse {

// The symbol of a kernel of the text, by its name in schedule and plan; of the launches behind it
// (plan::launches_behind) that of number 1, 2, …
std::string cuda_entry_name(std::string_view kernel, int32_t number = 0);

// One self-contained CUDA C++ translation unit (no #include): the prelude and one
// `extern "C" __global__` function per launch of each Kernel of the plan, taking abi::DeviceContext
// by value. Throws Error{compile} naming what the backend cannot do, Error{usage} for options that
// the arch does not have.
std::string emit_cuda(const KernelPlan& plan, const CudaOptions& options = {});

}  // namespace stepfuse
