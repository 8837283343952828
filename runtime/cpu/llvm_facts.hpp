// What a CPU variant's key has to know of LLVM and the processor, without opening LLVM where that can
// be helped. Knows LLVM's front and the disk cache.
#pragma once

#include <string>

#include "compiler/emit.hpp"

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

}  // namespace stepfuse
