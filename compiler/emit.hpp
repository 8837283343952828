// The emitters, for who holds a Schedule: it is lowered first. Knows the schedule and the plan.
#pragma once

#include <string>

#include "compiler/c/emit.hpp"
#include "compiler/cuda/emit.hpp"
#include "compiler/llvm/emit.hpp"
#include "compiler/plan/lower.hpp"

namespace stepfuse {

inline std::string emit_cuda(const Schedule& schedule, const CudaOptions& options = {}) {
  return emit_cuda(lower(schedule), options);
}
inline std::string emit_llvm(const Schedule& schedule, const CpuTarget& target) {
  return emit_llvm(lower(schedule), target);
}

inline std::string emit_c(const Schedule& schedule) { return emit_c(lower(schedule)); }

}  // namespace stepfuse
