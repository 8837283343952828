// Compiles a variant's LLVM IR, and keeps a reproducer if that fails. Knows the variant and LLVM's
// compiler.
#pragma once

#include <string>

#include "compiler/variant.hpp"
#include "runtime/cpu/llvm_compiler.hpp"

namespace stepfuse {

// `level` is the target's name. Throws what compile_cpu() throws. An Error{compile} names the kept files
// (.sf, .ll, a layout) and the command that replays them.
CpuObject compile_or_keep(const Variant& variant, const std::string& text, const CpuTarget& target,
                          const std::string& level, CpuCode code = CpuCode::optimized);

}  // namespace stepfuse
