// Compiles LLVM IR text to a relocatable object in memory, and describes the host's processor. Knows the
// compiler's CpuTarget; LLVM itself is behind llvm_library.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/llvm/emit.hpp"

namespace stepfuse {

// Describes the LLVM of this machine, for `env` and for cache keys. Making one never throws.
struct LlvmStatus {
  bool available = false;
  std::string version;  // "19.1.7"
  std::string library;  // the file that was opened
  std::string problem;  // if not available: each file tried, and what was wrong with it
};
const LlvmStatus& llvm_status();

// How compile_cpu() generates code. Quick code compiles in about half the time and takes up to twice as long to run,
// with bit-identical results. It suits programs that compile many kernels and run each a few times, such as tests.
enum class CpuCode { optimized, quick };

// Reads STEPFUSE_CPU_CODE=optimized|quick; the default is optimized. Throws Error{usage} for other values.
CpuCode cpu_code_from_environment();

// The passes that compile_cpu() runs, in LLVM's notation. They differ for each CpuCode, and an object depends on them.
const char* llvm_passes(CpuCode code);

// Returns the processor that this process runs on; throws Error{device} without LLVM.
CpuTarget host_cpu_target();

// `level` is "host", "x86-64", "x86-64-v3" or "x86-64-v4" (the levels on x86-64 hosts only).
CpuTarget cpu_target(std::string_view level);

// Returns those levels, including "host", whose instructions this processor has.
std::vector<std::string> runnable_cpu_levels();
// Throws Error{device} if this processor cannot run the level, and what cpu_target() throws for an
// unknown one.
void require_runnable(std::string_view level);

struct CompileTimes {
  double parse_ms = 0;    // text to verified module
  double passes_ms = 0;   // IR passes
  double codegen_ms = 0;  // object code
  double load_ms = 0;     // linked into the process (CpuKernel::load)
  double total_ms() const { return parse_ms + passes_ms + codegen_ms + load_ms; }
};

struct CpuObject {
  std::string bytes;  // a relocatable ELF object without undefined symbols, as caches keep it
  CompileTimes times;
};

// Thread-safe. Throws Error{compile} with LLVM's message and the line of `text` that it concerns, and
// Error{device} without LLVM.
CpuObject compile_cpu(const std::string& text, const CpuTarget& target,
                      CpuCode code = CpuCode::optimized);

}  // namespace stepfuse
