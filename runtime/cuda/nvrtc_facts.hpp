// What a variant's key has to know of NVRTC, without opening it where that can be helped: opening its
// 100 MB takes longer than loading a kernel. Knows NVRTC and the disk cache.
#pragma once

#include <vector>

namespace stepfuse::cuda {

struct NvrtcFacts {
  int major = 0, minor = 0;
  std::vector<int> archs;  // as in NvrtcStatus; empty if there is no NVRTC
};

// Remembered on disk from an earlier process, for the same search (environment, the files it meets)
// and the same library file (size, time, inode); else asked of NVRTC, once per process.
const NvrtcFacts& nvrtc_facts();

// Before something is compiled and kept: whether NVRTC, now opened, is what the facts say. If not,
// they are forgotten, and what this process compiles must not be kept under their name.
bool confirm_nvrtc_facts();

}  // namespace stepfuse::cuda
