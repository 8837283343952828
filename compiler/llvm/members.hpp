// Loops over the members of the coarser domains: the state writes and the rollups. Knows the
// schedule, the kernel ABI, and the expression table.
#pragma once

#include <functional>
#include <string>

#include "compiler/llvm/uniform.hpp"

namespace stepfuse::llvm {

enum class Absent { skip, take };

// Calls `body` with the index of each member of `d`, where the lists of `code` up to `d` are
// evaluated for it; those of the step domain must be before. Ends the current block.
void for_each_member(Function& function, Uniform& uniform, Domain d, const UniformCode& code,
                     Absent absent, const std::function<void(const std::string& index)>& body);

// The operands of a rollup, for all members of its domain, into the slots of their reductions.
std::string emit_rollup(const Schedule& schedule, Module& module, size_t phase, size_t rollup);

}  // namespace stepfuse::llvm
