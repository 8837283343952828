// A 128-bit hash of bytes that arrive in portions. Knows xxHash.
#pragma once

#include <cstddef>
#include <string>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stepfuse {

// The state is a member, because xxHash's own function for making one returns null if there is no memory.
class Hash128 {
 public:
  Hash128() { XXH3_128bits_reset(&state_); }
  void add(const void* data, size_t bytes) { XXH3_128bits_update(&state_, data, bytes); }
  std::string hex() const {
    XXH128_hash_t h = XXH3_128bits_digest(&state_);
    return fmt::format("{:016x}{:016x}", h.high64, h.low64);
  }

 private:
  XXH3_state_t state_;
};

}  // namespace stepfuse
