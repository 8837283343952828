// Loops over members of the coarser granularities: the state writes and the rollups. Knows the plan, the
// kernel ABI, and the expression table.
#pragma once

#include <functional>
#include <string>

#include "compiler/llvm/uniform.hpp"

namespace stepfuse::llvm {

enum class Absent { skip, take };

// Calls `body` with the index of each member of `g`, for which `code` is evaluated. Per-step code must have
// been evaluated before. Ends the current block.
void for_each_member(Function& function, Uniform& uniform, Granularity g, const plan::Uniform& code,
                     Absent absent, const std::function<void(const std::string& index)>& body);

// Emits the operands of a rollup, for all members of its granularity, into the slots of their reductions.
std::string emit_rollup(const KernelPlan& plan, Module& module, size_t phase, size_t rollup);

}  // namespace stepfuse::llvm
