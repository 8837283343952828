// Weak loads and stores of all lanes of a warp that stand at them.
#pragma once

#include "tools/ptx_machine/instruction.hpp"

namespace ptx {

// width: bytes of one element. extends: its sign goes through the whole slot.
RunLanes weak_load_lanes(u32 width, bool extends, bool non_coherent);
RunLanes weak_store_lanes(u32 width);

}  // namespace ptx
