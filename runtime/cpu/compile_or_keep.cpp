// Writes the reproducer of a failed CPU compilation. Knows LLVM's compiler and fmt.
#include "runtime/cpu/compile_or_keep.hpp"

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "runtime/saved/reproducer.hpp"

namespace stepfuse {

CpuObject compile_or_keep(const Variant& variant, const std::string& text, const CpuTarget& target,
                          const std::string& level, CpuCode code) {
  try {
    return compile_cpu(text, target, code);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::compile) throw;
    std::string command = fmt::format("run --steps=0 --backend=cpu --cpu-level={}", level);
    for (const Arg& a : variant.program.args) {
      if (!a.fallback) command += fmt::format(" --set {}=0", a.name);
    }
    throw Error(e.kind(), e.what() + keep_reproducer({.variant = variant,
                                                      .text = text,
                                                      .suffix = "ll",
                                                      .target = level,
                                                      .command = command}));
  }
}

}  // namespace stepfuse
