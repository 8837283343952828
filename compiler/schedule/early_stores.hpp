// Which stores of the fused form an earlier phase makes than the last. Knows ir.
#pragma once

#include <span>
#include <vector>

#include "compiler/schedule/analysis.hpp"

namespace stepfuse {

// A value that a later phase needs is recomputed there from what was loaded before, or, where it is
// stored to a buffer anyway, stored by the earlier phase and read back: whichever moves fewer bytes.
// `roots` has all stores in its last entry; some move to earlier ones, whose values those behind may
// fetch. No tensor of any signature moves more than before.
void store_early(const Program& program, std::span<const Signature> signatures,
                 std::vector<PhaseRoots>& roots);

}  // namespace stepfuse
