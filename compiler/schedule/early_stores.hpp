// Moves stores of the fused form from the last phase to earlier ones. Knows ir.
#pragma once

#include <span>
#include <vector>

#include "compiler/schedule/analysis.hpp"

namespace stepfuse {

// A value that a later phase needs is either recomputed there from loaded values or, if it is stored to a
// buffer anyway, stored by the earlier phase and read back, whichever moves fewer bytes. The last entry of
// `roots` has all stores at first. Some move to earlier entries, and later phases may then fetch their
// values. No tensor of any signature moves more bytes than before.
void store_early(const Program& program, std::span<const Signature> signatures,
                 std::vector<PhaseRoots>& roots);

}  // namespace stepfuse
