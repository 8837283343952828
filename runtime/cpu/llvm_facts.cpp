// Remembers which LLVM a search finds, and what it calls this processor. Knows LLVM's front.
#include "runtime/cpu/llvm_facts.hpp"

#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "runtime/cpu/llvm_compiler.hpp"
#include "runtime/remembered.hpp"

namespace stepfuse {
namespace {

// The lines of /proc/cpuinfo that say which processor it is and what it can do, of the first core.
std::string describe_processor() {
  static constexpr std::array<std::string_view, 9> kLines = {"vendor_id", "cpu family", "model",
                                                             "stepping",  "flags",      "Features",
                                                             "CPU impl",  "CPU v",      "CPU part"};
  std::string out;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line) && !line.empty();) {
    for (std::string_view start : kLines) {
      if (line.starts_with(start)) out += line + "\n";
    }
  }
  return out;
}

std::string question() {
  const char* named = ::secure_getenv("STEPFUSE_LLVM_LIBRARY");
  std::string file = named != nullptr ? named : "";
  return fmt::format("stepfuse: which LLVM, which processor 1\n{} {}\n{}\n{}", file,
                     file_identity(file), describe_loader_search(), describe_processor());
}

// "19.1.7\n512\nznver5\n+avx,…"
std::optional<LlvmFacts> recall() {
  auto answer = recall_answer(question());
  if (!answer) return std::nullopt;
  std::istringstream in(*answer);
  LlvmFacts facts;
  in >> facts.version >> facts.host.vector_bits >> facts.host.cpu >> facts.host.features;
  if (!in) return std::nullopt;
  return facts;
}

LlvmFacts ask() {
  const LlvmStatus& status = llvm_status();
  if (!status.available) return {};
  LlvmFacts facts{status.version, host_cpu_target()};
  remember_answer(question(), status.library,
                  fmt::format("{}\n{}\n{}\n{}", facts.version, facts.host.vector_bits,
                              facts.host.cpu, facts.host.features));
  return facts;
}

}  // namespace

const LlvmFacts& llvm_facts() {
  static const LlvmFacts facts = [] {
    if (auto known = recall()) return *known;
    return ask();
  }();
  return facts;
}

bool confirm_llvm_facts() {
  const LlvmFacts& facts = llvm_facts();
  if (!llvm_status().available) return false;
  CpuTarget host = host_cpu_target();
  bool same = llvm_status().version == facts.version && host.cpu == facts.host.cpu &&
              host.features == facts.host.features && host.vector_bits == facts.host.vector_bits;
  if (!same) forget_answer(question());
  return same;
}

}  // namespace stepfuse
