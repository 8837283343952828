// Counts allocations and locks of the whole process: its allocator and mutex functions are replaced by
// counting ones. Knows only std.
#pragma once

#include <cstdint>
#include <ostream>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
#define STEPFUSE_COUNTS_HOST_CALLS 1  // sanitizers replace the same functions
#else
#define STEPFUSE_COUNTS_HOST_CALLS 0
#endif

namespace stepfuse::testing {

struct HostCalls {
  uint64_t allocations = 0, locks = 0;
  friend bool operator==(const HostCalls&, const HostCalls&) = default;
  friend std::ostream& operator<<(std::ostream& out, const HostCalls& c) {
    return out << c.allocations << " allocations, " << c.locks << " locks";
  }
};

// From 0. Calls during which `elsewhere` (of the calling thread) is not 0 are somebody else's.
void start_counting(int (*elsewhere)() = nullptr);
HostCalls stop_counting();

}  // namespace stepfuse::testing
