// A step that looks up in code tables of any size: values, bounds between them and what lies beside.
// Knows ir.
#pragma once

#include <cstddef>
#include <vector>

#include <stepfuse/program.hpp>

#include "tests/support/rng.hpp"

namespace stepfuse::testing {

// A table of so many values, each above the one before.
std::vector<float> rising_values(size_t count, Rng& rng);

// Looks for the nearest codes of loaded numbers, of the table's bounds and of the bounds'
// neighbours by their bits, and looks up codes within the table and beyond. The bounds come out of a
// table of their own.
Program table_program(const std::vector<float>& values);

}  // namespace stepfuse::testing
