// The kernels of a step, loaded into one context. Knows the driver and the plan.
#pragma once

#include <memory>
#include <vector>

#include "compiler/abi.hpp"
#include "runtime/cuda/context.hpp"
#include "runtime/cuda/step_code.hpp"

namespace stepfuse {

class CudaKernel {
 public:
  struct Entry {
    cuda::CuFunction function = nullptr;
    int32_t kernel = 0;  // index in the plan
    int32_t first_phase = 0;
    int32_t phase_count = 0;
    bool behind = false;       // it is one of plan::launches_behind
    bool of_members = false;   // works on rows, columns and tensors instead of chunks
    bool cooperative = false;  // has a grid barrier: all its blocks must be resident
    bool splits = false;       // has a phase without reductions, which may work on parts of chunks
    uint32_t rows_in_order = 0;  // not 0 if a phase may take part of a strip's rows
    unsigned resident = 1;       // number of blocks that fit on the device
  };

  CudaKernel(std::shared_ptr<cuda::Context> context, const cuda::StepCode& code,
             const KernelPlan& plan);
  ~CudaKernel();
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;

  const std::vector<Entry>& entries() const { return entries_; }  // in order of launch

 private:
  void add(const KernelPlan& plan, const plan::Kernel& kernel, int32_t number);

  std::shared_ptr<cuda::Context> context_;
  cuda::CuModule module_ = nullptr;
  std::vector<Entry> entries_;
};

}  // namespace stepfuse
