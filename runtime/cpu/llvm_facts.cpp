// Remembers which LLVM a search finds, and how that LLVM describes this processor. Knows LLVM's front.
#include "runtime/cpu/llvm_facts.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "runtime/caches/remembered.hpp"
#include "runtime/cpu/llvm_compiler.hpp"

namespace stepfuse {
namespace {

std::string question() {
  const char* named = ::secure_getenv("STEPFUSE_LLVM_LIBRARY");
  std::string file = named != nullptr ? named : "";
  std::ifstream processor("/proc/cpuinfo");
  return fmt::format("stepfuse: which LLVM, which processor 1\n{} {}\n{}\n{}", file,
                     file_identity(file), describe_loader_search(), describe_processor(processor));
}

bool made_of(std::string_view text, std::string_view more) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || more.find(c) != more.npos;
  });
}

std::optional<LlvmFacts> recall() {
  auto answer = recall_answer(question());
  return answer ? parse_llvm_facts(*answer) : std::nullopt;
}

LlvmFacts ask() {
  const LlvmStatus& status = llvm_status();
  if (!status.available) return {};
  LlvmFacts facts{status.version, host_cpu_target()};
  remember_answer(question(), status.library, print_llvm_facts(facts));
  return facts;
}

}  // namespace

std::string describe_processor(std::istream& cpuinfo) {
  static constexpr std::array<std::string_view, 9> kLines = {"vendor_id", "cpu family", "model",
                                                             "stepping",  "flags",      "Features",
                                                             "CPU impl",  "CPU v",      "CPU part"};
  std::string out;
  for (std::string line; std::getline(cpuinfo, line) && !line.empty();) {
    for (std::string_view start : kLines) {
      if (line.starts_with(start)) out += line + "\n";
    }
  }
  return out;
}

std::string print_llvm_facts(const LlvmFacts& facts) {
  return fmt::format("{}\n{}\n{}\n{}", facts.version, facts.host.vector_bits, facts.host.cpu,
                     facts.host.features);
}

std::optional<LlvmFacts> parse_llvm_facts(const std::string& text) {
  std::istringstream in(text);
  LlvmFacts facts;
  in >> facts.version >> facts.host.vector_bits >> facts.host.cpu >> facts.host.features;
  int bits = facts.host.vector_bits;
  bool sane = in && (bits == 128 || bits == 256 || bits == 512) && made_of(facts.version, ".") &&
              made_of(facts.host.cpu, "._-") && made_of(facts.host.features, "+-,._") &&
              print_llvm_facts(facts) == text;
  if (!sane) return std::nullopt;
  return facts;
}

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
