// Emits the functions of a CPU module: step code, the chunk loop of a phase, and the state writes. Knows
// the plan, the kernel ABI, and the expression table.
#pragma once

#include <string>

#include "compiler/llvm/text.hpp"
#include "compiler/plan/plan.hpp"

namespace stepfuse::llvm {

std::string emit_enter(const KernelPlan& plan, Module& module, size_t phase);
std::string emit_phase(const KernelPlan& plan, Module& module, size_t phase);
std::string emit_finish(const KernelPlan& plan, Module& module);

}  // namespace stepfuse::llvm
