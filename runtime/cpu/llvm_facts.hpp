// The facts about LLVM and the processor that a CPU variant's key needs, without opening LLVM if
// possible. Knows LLVM's front and the disk cache.
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

// Returns the facts, remembered on disk from an earlier process with the same search, library file and
// processor. If there are none, it asks LLVM, once per process.
const LlvmFacts& llvm_facts();

// Call it before a compiled object is kept: it tells whether LLVM, which is open by then, confirms the
// facts. If not, the facts are forgotten, and this process must not keep objects under their name.
bool confirm_llvm_facts();

// Returns the lines of /proc/cpuinfo that identify the processor and its features, for the first core.
std::string describe_processor(std::istream& cpuinfo);

// The text is "19.1.7\n512\nznver5\n+avx,…". Reading a text that is not of this form returns nothing.
std::string print_llvm_facts(const LlvmFacts& facts);
std::optional<LlvmFacts> parse_llvm_facts(const std::string& text);

}  // namespace stepfuse
