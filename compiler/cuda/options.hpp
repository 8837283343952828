// The CUDA emitter's choices: none of them changes a value. Knows std.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stepfuse {

// How arrays are accessed that the step does not load again later on.
enum class CudaCache : uint8_t {
  normal,       // like all others
  streaming,    // ld.cs, st.cs: the caches expect no second use
  evict_first,  // a policy of the L2 cache only: theirs are the first lines to go
};

struct CudaOptions {
  int arch = 90;       // compute capability, major * 10 + minor
  int min_blocks = 3;  // that an SM has registers for: __launch_bounds__
  int unroll = 1;      // times 64 bytes that a thread loads at once, where there is so much to load
  CudaCache cache = CudaCache::normal;
  int access = 128;  // bits of the widest access; 256 from sm_100 on
  bool reverse =
      true;  // an update goes backwards: what the phase before read last is in the L2 cache
  friend bool operator==(const CudaOptions&, const CudaOptions&) = default;
};

// "min-blocks=3,unroll=1,cache=normal,access=128,reverse=on", without the arch.
std::string print(const CudaOptions& options);

// `base` with what `text` names, in the form that print() writes: any of the names, in any order.
// Throws Error{usage} naming what is unknown.
CudaOptions with_options(CudaOptions base, std::string_view text);

// Throws Error{usage} naming an option that the arch does not have.
void check(const CudaOptions& options);

}  // namespace stepfuse
