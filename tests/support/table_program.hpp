// A step that looks up code tables of any size: values, bounds between them, and values outside.
// Knows ir.
#pragma once

#include <cstddef>
#include <vector>

#include <stepfuse/program.hpp>

#include "tests/support/rng.hpp"

namespace stepfuse::testing {

// A table of `count` ascending values.
std::vector<float> rising_values(size_t count, Rng& rng);

// Looks for the nearest codes of loaded numbers, of the table's bounds and of the bounds'
// neighbours. Looks up codes inside of the table and outside. A second table holds the bounds.
Program table_program(const std::vector<float>& values);

}  // namespace stepfuse::testing
