// Damage to safetensors files that stays one for longer than random bytes do. Knows the format.
#pragma once

#include <string>

#include "tests/support/rng.hpp"

namespace stepfuse::testing {

// The file's bytes with another header: its length, numbers, or an array's place, shape or type; or
// with faults anywhere.
std::string damaged_safetensors(const std::string& good, Rng& rng);

// Writes the file at `path` again with a right digest, and with arrays or metadata that are missing,
// renamed, or of other sizes, types and values.
void rewrite_otherwise(const std::string& path, Rng& rng);

}  // namespace stepfuse::testing
