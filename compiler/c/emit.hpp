// The C emitter. It writes a KernelPlan as one self-contained C11 file, for machines without LLVM and for
// reading. Knows the plan.
#pragma once

#include <string>

#include "compiler/plan/plan.hpp"

namespace stepfuse {

// The file includes only headers of the C library and defines
//   void sf_phase_<p>(const sf_context*, uint32_t begin, uint32_t end)   chunks [begin, end)
//   void sf_rollup_<p>_<r>(const sf_context*)                            operands -> slots
//   void sf_finish(const sf_context*)                                    writes the states
//   void sf_run(const sf_context*)                                       the whole step, with folds
// where sf_context is abi::Context. Compile it with -ffp-contract=off and link with libm. The caller sets
// the floating-point mode: round to nearest, keep subnormals.
std::string emit_c(const KernelPlan& plan);

}  // namespace stepfuse
