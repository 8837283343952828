// Remembers which NVRTC a search finds. Knows NVRTC, the disk cache and fmt.
#include "runtime/cuda/nvrtc_facts.hpp"

#include <optional>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/cuda/nvrtc.hpp"
#include "runtime/cuda/nvrtc_library.hpp"
#include "runtime/disk_cache.hpp"

namespace stepfuse::cuda {
namespace {

std::string preimage() { return "stepfuse nvrtc 1\n" + describe_nvrtc_search(); }

// "13 0\n75 80 90\n<identity of the file>\n<its path>"
std::optional<NvrtcFacts> recall() {
  auto stored = DiskCache::process().load(preimage());
  if (!stored) return std::nullopt;
  std::istringstream in(*stored);
  NvrtcFacts facts;
  std::string archs, identity, path;
  in >> facts.major >> facts.minor >> std::ws;
  if (!std::getline(in, archs) || !std::getline(in, identity) || !std::getline(in, path)) {
    return std::nullopt;
  }
  std::istringstream numbers(archs);
  for (int arch = 0; numbers >> arch;) facts.archs.push_back(arch);
  if (facts.archs.empty() || file_identity(path) != identity) return std::nullopt;
  return facts;
}

NvrtcFacts ask() {
  const NvrtcStatus& status = nvrtc_status();
  NvrtcFacts facts{status.major, status.minor, status.archs};
  if (!status.available) return facts;
  std::string identity = file_identity(status.path);
  if (!identity.empty()) {
    DiskCache::process().store(preimage(),
                               fmt::format("{} {}\n{}\n{}\n{}\n", facts.major, facts.minor,
                                           fmt::join(facts.archs, " "), identity, status.path));
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
  if (!same) DiskCache::process().remove(preimage());
  return same;
}

}  // namespace stepfuse::cuda
