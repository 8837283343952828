// Seeds and damaged bytes for the fuzzers. Knows doctest and the seeded generator.
//
// STEPFUSE_SEEDS=FIRST:COUNT chooses the seeds; tools/fuzz.sh runs many such blocks of every fuzzer.
// A fuzzer draws everything from the Rng that it is given, so that a seed is one case for ever.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/support/rng.hpp"

namespace stepfuse::testing {

// Calls `one` for each of `count` seeds (fewer under a sanitizer), unless the environment gives a
// count, and returns the count. An exception is a fault. So is a crash, whose report names the
// seed.
uint64_t fuzz(uint64_t count, const std::function<void(Rng&)>& one);

// The bytes with one to four faults: flipped bits, ranges overwritten, inserted, removed, repeated
// or moved, numbers at the edges of their types, truncation.
std::string damaged(std::string bytes, Rng& rng);

}  // namespace stepfuse::testing
