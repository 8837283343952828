// What seeded arrays hold: ordinary values, and those that break careless kernels. Knows ir only.
#pragma once

#include <cstdint>

#include <stepfuse/types.hpp>

#include "tools/workload/random.hpp"

namespace stepfuse {

// Which values stand among the ordinary ones.
enum class Spice : uint8_t {
  none,
  mild,       // zeros of both signs, subnormals, smallest normals: a step over them is good
  nonfinite,  // mild, and some NaN and infinities
  huge,       // mild, and some of the largest finite values: their norm overflows
  all,
};

struct Filling {
  float scale = 1;  // ordinary floats are normal with a deviation of about this; i32 are small
  Spice spice = Spice::none;
  bool positive = false;  // ordinary floats are (a mean of squares); those of `spice` may not be
};

// Fills `count` values of `dtype` at `data`, the first being element 0 of the stream's array. If the
// spice is NaN or huge values, an array of one element or more has at least one.
void fill_values(void* data, uint64_t count, DType dtype, const RandomStream& random,
                 const Filling& filling);

}  // namespace stepfuse
