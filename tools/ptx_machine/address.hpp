// The windows of the address spaces within generic addresses.
#pragma once

#include "tools/ptx_machine/syntax.hpp"

namespace ptx {

// Outside of everything that Memory or the host hands out; 4 GiB each.
inline constexpr u64 kSharedWindow = 0xFFF1'0000'0000'0000;
inline constexpr u64 kLocalWindow = 0xFFF2'0000'0000'0000;
inline constexpr u64 kParamWindow = 0xFFF3'0000'0000'0000;

// Nothing is allocated in the first bytes of shared memory, so that a null offset is caught.
inline constexpr u32 kSharedStart = 1024;
inline constexpr u32 kSharedGap = 64;

constexpr u64 window_of(Space space) {
  switch (space) {
    case Space::shared:
      return kSharedWindow;
    case Space::local:
      return kLocalWindow;
    case Space::param:
      return kParamWindow;
    default:
      return 0;
  }
}

// Turns a generic address into one of its own space.
constexpr Space resolve_generic(u64& address) {
  u64 window = address & ~u64{0xFFFF'FFFF};
  Space space = window == kSharedWindow  ? Space::shared
                : window == kLocalWindow ? Space::local
                : window == kParamWindow ? Space::param
                                         : Space::global;
  if (space != Space::global) address -= window;
  return space;
}

}  // namespace ptx
