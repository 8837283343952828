// Loads modules and queries their occupancy. Knows the driver and the compiler's names.
#include "runtime/cuda/cuda_kernel.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

namespace stepfuse {

using namespace cuda;

namespace {

// Suggests the usual reason of a failed load.
std::string_view advice() {
  bool newer = nvrtc_status().major > driver_status().version / 1000;
  return newer ? "; the driver is older than NVRTC: update it, or point STEPFUSE_NVRTC_DIR to an "
                 "NVRTC of its own major version"
               : "";
}

}  // namespace

CudaKernel::CudaKernel(std::shared_ptr<Context> context, const StepCode& code,
                       const KernelPlan& plan)
    : context_(std::move(context)) {
  const DriverLibrary& cu = driver();
  Context::Scope scope(*context_);
  CuResult loaded = cu.cuModuleLoadDataEx(&module_, code.code.c_str(), 0, nullptr, nullptr);
  if (loaded != kSuccess) {
    throw Error(
        ErrorKind::device,
        fmt::format("{} for sm_{}, made by NVRTC {}.{}, does not load into {} (sm_{}, driver "
                    "for CUDA {}.{}): {}{}",
                    code.kind == CodeKind::cubin ? "a cubin" : "PTX", code.arch,
                    nvrtc_status().major, nvrtc_status().minor, context_->device().name,
                    context_->device().arch, driver_status().version / 1000,
                    driver_status().version % 1000 / 10, error_text(loaded), advice()));
  }
  try {
    for (const plan::Kernel& kernel : plan.kernels) {
      for (int32_t n = 0; n <= plan::launches_behind(plan, kernel); ++n) add(plan, kernel, n);
    }
  } catch (...) {
    cu.cuModuleUnload(module_);
    throw;
  }
}

void CudaKernel::add(const KernelPlan& plan, const plan::Kernel& kernel, int32_t number) {
  const DriverLibrary& cu = driver();
  Entry entry;
  std::string name = cuda_entry_name(kernel.name, number);
  check(cu.cuModuleGetFunction(&entry.function, module_, name.c_str()), "cuModuleGetFunction");
  // With lazy loading the first launch would load the function, perhaps during a capture.
  if (cu.cuFuncLoad != nullptr) check(cu.cuFuncLoad(entry.function), "cuFuncLoad");
  int blocks = 0;
  check(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, entry.function, abi::kBlockThreads,
                                                       0),
        "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  entry.kernel = static_cast<int32_t>(&kernel - plan.kernels.data());
  entry.first_phase = kernel.first_phase;
  entry.phase_count = kernel.phase_count;
  entry.behind = number > 0;
  entry.of_members = entry.behind || (kernel.phase_count == 0 && plan::writes_lines(plan));
  entry.cooperative = plan::blocks_wait(plan, kernel);
  for (int32_t p = kernel.first_phase; p < kernel.end() && !entry.behind; ++p) {
    entry.splits |= plan.may_split(plan.phase(p));
    if (plan.may_split_rows(plan.phase(p))) {
      entry.rows_in_order = static_cast<uint32_t>(plan.rows_in_order);
    }
  }
  entry.resident = static_cast<unsigned>(std::max(1, blocks * context_->device().multiprocessors));
  entries_.push_back(entry);
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
