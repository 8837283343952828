// The functions of a CPU module: step code, the chunk loop of a phase, and the state writes. Knows
// the schedule, the kernel ABI, and the expression table.
#pragma once

#include <string>

#include "compiler/llvm/text.hpp"
#include "compiler/schedule/schedule.hpp"

namespace stepfuse::llvm {

std::string emit_enter(const Schedule& schedule, Module& module, size_t phase);
std::string emit_phase(const Schedule& schedule, Module& module, size_t phase);
std::string emit_finish(const Schedule& schedule, Module& module);

}  // namespace stepfuse::llvm
