// The facts about NVRTC that a variant's key needs, without opening NVRTC if possible: opening its 100 MB
// takes longer than loading a kernel. Knows NVRTC and the disk cache.
#pragma once

#include <vector>

namespace stepfuse::cuda {

struct NvrtcFacts {
  int major = 0, minor = 0;
  std::vector<int> archs;  // as in NvrtcStatus; empty if there is no NVRTC
};

// Returns the facts, remembered on disk from an earlier process with the same search (environment, files
// found) and the same library file (size, time, inode). If there are none, it asks NVRTC, once per
// process.
const NvrtcFacts& nvrtc_facts();

// Call it before compiled code is kept: it tells whether NVRTC, which is open by then, confirms the
// facts. If not, they are forgotten, and this process must not keep code under their name.
bool confirm_nvrtc_facts();

}  // namespace stepfuse::cuda
