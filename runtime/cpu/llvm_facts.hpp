// What a CPU variant's key has to know of LLVM and the processor, without opening LLVM where that can
// be helped. Knows LLVM's front and the disk cache.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "compiler/llvm/emit.hpp"

namespace stepfuse {

struct LlvmFacts {
  std::string version;  // as in LlvmStatus; empty if there is no LLVM
  CpuTarget host;
};

// Remembered on disk from an earlier process, for the same search, library file and processor; else
// asked of LLVM, once per process.
const LlvmFacts& llvm_facts();

// Before something is compiled and kept: whether LLVM, now opened, says the same. If not, the facts
// are forgotten, and what this process compiles must not be kept under their name.
bool confirm_llvm_facts();

// The lines of /proc/cpuinfo that say which processor it is and what it can do, of the first core.
std::string describe_processor(std::istream& cpuinfo);

// "19.1.7\n512\nznver5\n+avx,…"; nothing for a text that no such facts print as.
std::string print_llvm_facts(const LlvmFacts& facts);
std::optional<LlvmFacts> parse_llvm_facts(const std::string& text);

}  // namespace stepfuse
