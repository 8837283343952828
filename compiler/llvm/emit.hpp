// The LLVM emitter. It writes the text of a CPU's kernels for a KernelPlan. Knows the plan.
#pragma once

#include <string>

#include "compiler/plan/plan.hpp"

namespace stepfuse {

struct CpuTarget {
  std::string cpu = "x86-64";  // LLVM's name of the processor
  std::string features;        // LLVM feature string, "+avx512f,…"
  int vector_bits = 128;       // width of the explicit vectors
};

// Returns one LLVM IR module as text. For each phase p it defines
//   void @sf_enter_<p>(ptr ctx)                       step code of the phase -> Context::scalars
//   void @sf_phase_<p>(ptr ctx, i64 begin, i64 end)   chunks [begin, end)
// and
//   void @sf_rollup_<p>_<r>(ptr ctx)                  operands of a rollup behind it -> slots
//   void @sf_finish(ptr ctx)                          writes the states
// The caller folds slots to results after each phase and after each rollup, in the canonical order.
std::string emit_llvm(const KernelPlan& plan, const CpuTarget& target);

}  // namespace stepfuse
