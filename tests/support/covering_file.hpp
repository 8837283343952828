// Covering sets that are computed once and stored in tests/data. Knows the file system.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tests/support/pairwise.hpp"

namespace stepfuse::testing {

// The set in tests/data/NAME.covering. If the file has different factors or a different seed, the
// set is computed, so that a new optimizer or option needs no other edit. A long run always
// computes it, and fails if the file differs. STEPFUSE_UPDATE_COVERING=1 writes the file.
CoveringSet kept_covering_set(const std::string& name, const std::vector<Factor>& factors,
                              const std::function<bool(const Row&)>& valid, uint64_t seed);

// A set as text, without its contradictions, and back. Returns nothing for a text with different
// factors or a different seed, and for a damaged one.
std::string covering_text(const CoveringSet& set, const std::vector<Factor>& factors,
                          uint64_t seed);
std::optional<CoveringSet> covering_from(std::string_view text, const std::vector<Factor>& factors,
                                         uint64_t seed);

}  // namespace stepfuse::testing
