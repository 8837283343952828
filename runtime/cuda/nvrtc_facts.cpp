// Remembers which NVRTC a search finds. Knows NVRTC and fmt.
#include "runtime/cuda/nvrtc_facts.hpp"

#include <optional>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/caches/remembered.hpp"
#include "runtime/cuda/nvrtc.hpp"
#include "runtime/cuda/nvrtc_library.hpp"

namespace stepfuse::cuda {
namespace {

std::string question() { return "stepfuse: which NVRTC 1\n" + describe_nvrtc_search(); }

// The text is "13 0 75 80 90": the version, then the compute capabilities that NVRTC compiles for.
std::optional<NvrtcFacts> recall() {
  auto answer = recall_answer(question());
  if (!answer) return std::nullopt;
  std::istringstream in(*answer);
  NvrtcFacts facts;
  in >> facts.major >> facts.minor;
  for (int arch = 0; in >> arch;) facts.archs.push_back(arch);
  if (facts.archs.empty()) return std::nullopt;
  return facts;
}

NvrtcFacts ask() {
  const NvrtcStatus& status = nvrtc_status();
  NvrtcFacts facts{status.major, status.minor, status.archs};
  if (status.available) {
    remember_answer(question(), status.path,
                    fmt::format("{} {} {}", facts.major, facts.minor, fmt::join(facts.archs, " ")));
  }
  return facts;
}

}  // namespace

const NvrtcFacts& nvrtc_facts() {
  static const NvrtcFacts facts = [] {
    if (auto known = recall()) return *known;
    return ask();
  }();
  return facts;
}

bool confirm_nvrtc_facts() {
  const NvrtcStatus& status = nvrtc_status();
  const NvrtcFacts& facts = nvrtc_facts();
  bool same =
      status.major == facts.major && status.minor == facts.minor && status.archs == facts.archs;
  if (!same) forget_answer(question());
  return same;
}

}  // namespace stepfuse::cuda
