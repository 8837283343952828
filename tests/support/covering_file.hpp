// Covering sets that are computed once and kept in tests/data. Knows the file system.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tests/support/pairwise.hpp"

namespace stepfuse::testing {

// The set that tests/data/NAME.covering holds. Where that is of other factors or another seed, the set
// is computed, so that a new optimizer or option needs no other edit. A long run computes it always,
// and fails if the file holds another one. STEPFUSE_UPDATE_COVERING=1 writes the file.
CoveringSet kept_covering_set(const std::string& name, const std::vector<Factor>& factors,
                              const std::function<bool(const Row&)>& valid, uint64_t seed);

// A set as text, without what contradicts itself, and back: nothing if the text is of other factors
// or another seed, or is damaged.
std::string covering_text(const CoveringSet& set, const std::vector<Factor>& factors,
                          uint64_t seed);
std::optional<CoveringSet> covering_from(std::string_view text, const std::vector<Factor>& factors,
                                         uint64_t seed);

}  // namespace stepfuse::testing
