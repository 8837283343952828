// The emitters: Schedule to kernel text. Knows ir and the schedule.
#pragma once

#include <string>

#include "compiler/cuda/options.hpp"
#include "compiler/schedule/schedule.hpp"

namespace stepfuse {

// The symbol of a kernel of the text.
std::string cuda_entry_name(const Kernel& kernel);

// One self-contained CUDA C++ translation unit (no #include): the prelude and one
// `extern "C" __global__` function per Kernel of the schedule, taking abi::DeviceContext by value.
// Throws Error{compile} naming what the backend cannot do, Error{usage} for options that the arch does
// not have.
std::string emit_cuda(const Schedule& schedule, const CudaOptions& options = {});

struct CpuTarget {
  std::string cpu = "x86-64";  // LLVM's name of the processor
  std::string features;        // LLVM feature string, "+avx512f,…"
  int vector_bits = 128;       // width of the explicit vectors
};

// One LLVM IR module as text. For each phase p it defines
//   void @sf_enter_<p>(ptr ctx)                       step code of the phase -> Context::scalars
//   void @sf_phase_<p>(ptr ctx, i64 begin, i64 end)   chunks [begin, end)
// and
//   void @sf_rollup_<p>_<r>(ptr ctx)                  operands of a rollup behind it -> slots
//   void @sf_finish(ptr ctx)                          writes the states
// The caller folds slots to results after each phase and after each rollup, in the canonical order.
std::string emit_llvm(const Schedule& schedule, const CpuTarget& target);

}  // namespace stepfuse
