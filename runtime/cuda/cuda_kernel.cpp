// Loads modules and asks for their occupancy. Knows the driver and the compiler's names.
#include "runtime/cuda/cuda_kernel.hpp"

#include <algorithm>

namespace stepfuse {

using namespace cuda;

CudaKernel::CudaKernel(std::shared_ptr<Context> context, const StepCode& code,
                       const Schedule& schedule)
    : context_(std::move(context)) {
  const DriverLibrary& cu = driver();
  Context::Scope scope(*context_);
  check(cu.cuModuleLoadDataEx(&module_, code.code.c_str(), 0, nullptr, nullptr),
        "cuModuleLoadDataEx");
  try {
    for (const Kernel& kernel : schedule.kernels) {
      Entry entry;
      std::string name = cuda_entry_name(kernel);
      check(cu.cuModuleGetFunction(&entry.function, module_, name.c_str()), "cuModuleGetFunction");
      int blocks = 0;
      check(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, entry.function,
                                                           code.options.threads, 0),
            "cuOccupancyMaxActiveBlocksPerMultiprocessor");
      entry.first_phase = kernel.first_phase;
      entry.phase_count = kernel.phase_count;
      entry.cooperative = kernel.phase_count > 1;
      entry.resident =
          static_cast<unsigned>(std::max(1, blocks * context_->device().multiprocessors));
      entries_.push_back(entry);
    }
  } catch (...) {
    cu.cuModuleUnload(module_);
    throw;
  }
}

CudaKernel::~CudaKernel() {
  try {
    Context::Scope scope(*context_);
    driver().cuModuleUnload(module_);
  } catch (const Error&) {
    // The context is gone, and the module with it.
  }
}

}  // namespace stepfuse
