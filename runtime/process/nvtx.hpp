// Named ranges for a profiler's timeline (NVTX). Knows only std.
//
// A profiler names its library in NVTX_INJECTION64_PATH before the process starts (Nsight Systems does
// this). The library is loaded when the first step is made. Without the variable, a range costs one test of
// a pointer.
#pragma once

namespace stepfuse {

namespace nvtx {
using PushFunction = int (*)(const char* name);
using PopFunction = int (*)();
struct Functions {
  PushFunction push = nullptr;
  PopFunction pop = nullptr;
};
// Asks the profiler's library, once per process; never throws.
const Functions& functions();
}  // namespace nvtx

// A range on the calling thread, from construction to destruction.
class NvtxRange {
 public:
  NvtxRange(const nvtx::Functions& nvtx, const char* name) : nvtx_(nvtx) {
    if (nvtx_.push != nullptr) nvtx_.push(name);
  }
  ~NvtxRange() {
    if (nvtx_.pop != nullptr) nvtx_.pop();
  }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  const nvtx::Functions& nvtx_;
};

}  // namespace stepfuse
