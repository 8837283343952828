// Random optimizer formulas as text: every operator, function, statement and reduction. Knows std.
#pragma once

#include <cstdint>
#include <string>

namespace stepfuse::testing {

// The same text for the same seed, always; one that parses and makes a step with any option of the
// pipeline.
std::string random_formula(uint64_t seed);

}  // namespace stepfuse::testing
