// The CUDA emitter's choices. None of them changes a value. Knows std.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stepfuse {

// How to access arrays that the step does not load again later.
enum class CudaCache : uint8_t {
  normal,       // like all other arrays
  streaming,    // ld.cs, st.cs: the caches expect no second use
  evict_first,  // a policy of the L2 cache: their lines are evicted first
};

struct CudaOptions {
  int arch = 90;       // compute capability, major * 10 + minor
  int min_blocks = 3;  // blocks that an SM has registers for: __launch_bounds__
  int unroll = 1;      // loads per thread in units of 64 bytes, if there is that much to load
  CudaCache cache = CudaCache::normal;
  int access = 128;  // bits of the widest access; 256 from sm_100 on
  bool reverse =
      true;  // an update goes backwards: what the phase before read last is in the L2 cache
  friend bool operator==(const CudaOptions&, const CudaOptions&) = default;
};

// Returns "min-blocks=3,unroll=1,cache=normal,access=128,reverse=on", without the arch.
std::string print(const CudaOptions& options);

// Returns `base` with the options that `text` names, in print()'s notation, in any order. Throws
// Error{usage} that names an unknown option or value.
CudaOptions with_options(CudaOptions base, std::string_view text);

// Throws Error{usage} that names an option that the arch does not have.
void check(const CudaOptions& options);

}  // namespace stepfuse
