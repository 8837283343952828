// LLVM IR text to a relocatable object in memory, and what the host's processor is. Knows the
// compiler's CpuTarget; LLVM itself is behind llvm_library.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/llvm/emit.hpp"

namespace stepfuse {

// What LLVM is here, for `env` and for cache keys; never throws.
struct LlvmStatus {
  bool available = false;
  std::string version;  // "19.1.7"
  std::string library;  // the file that was opened
  std::string problem;  // if not available: each file tried, and what was wrong with it
};
const LlvmStatus& llvm_status();

// The passes that compile_cpu runs, in LLVM's notation: part of what an object depends on.
std::string_view llvm_passes();

// The processor this runs on; throws Error{device} without LLVM.
CpuTarget host_cpu_target();

// "host", or one of the levels "x86-64", "x86-64-v3", "x86-64-v4" (x86-64 hosts only).
CpuTarget cpu_target(std::string_view level);

// The levels of the above, host included, whose instructions this processor has.
std::vector<std::string> runnable_cpu_levels();
// Throws Error{device} for another level, and what cpu_target() does where there is no such level.
void require_runnable(std::string_view level);

struct CompileTimes {
  double parse_ms = 0;    // text to verified module
  double passes_ms = 0;   // IR passes
  double codegen_ms = 0;  // object code
  double load_ms = 0;     // linked into the process (CpuKernel::load)
  double total_ms() const { return parse_ms + passes_ms + codegen_ms + load_ms; }
};

struct CpuObject {
  std::string bytes;  // a relocatable ELF object without undefined symbols: what a cache keeps
  CompileTimes times;
};

// Thread-safe. Throws Error{compile} with LLVM's message and the line of `text` it is about, and
// Error{device} without LLVM.
CpuObject compile_cpu(const std::string& text, const CpuTarget& target);

}  // namespace stepfuse
