// The C emitter: KernelPlan to one self-contained C11 file, for machines without LLVM and for reading.
// Knows the plan.
#pragma once

#include <string>

#include "compiler/plan/plan.hpp"

namespace stepfuse {

// The file includes nothing but the C library's headers and defines
//   void sf_phase_<p>(const sf_context*, uint32_t begin, uint32_t end)   chunks [begin, end)
//   void sf_rollup_<p>_<r>(const sf_context*)                            operands -> slots
//   void sf_finish(const sf_context*)                                    writes the states
//   void sf_run(const sf_context*)                                       the whole step, folds too
// where sf_context is abi::Context. It is compiled with -ffp-contract=off and linked with libm. The caller
// sets the floating-point mode: to nearest, subnormals kept.
std::string emit_c(const KernelPlan& plan);

}  // namespace stepfuse
