// What the fuzzers share: seeds, and damage to bytes. Knows doctest and the seeded generator.
//
// STEPFUSE_SEEDS=FIRST:COUNT chooses the seeds; tools/fuzz.sh runs many such blocks of every fuzzer.
// A fuzzer draws everything from the Rng that it is given, so that a seed is one case for ever.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/support/rng.hpp"

namespace stepfuse::testing {

// Calls `one` for each seed, `count` of them (fewer under a sanitizer) unless the environment says how
// many, and returns how many. What leaves it as an exception is a fault; so is a crash, whose report
// names the seed.
uint64_t fuzz(uint64_t count, const std::function<void(Rng&)>& one);

// The bytes with one to four faults: flipped bits, overwritten, inserted, removed, repeated and moved
// ranges, numbers at the edges of their types, a cut.
std::string damaged(std::string bytes, Rng& rng);

}  // namespace stepfuse::testing
