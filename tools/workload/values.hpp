// The contents of seeded arrays: ordinary values, and values that break careless kernels. Knows ir
// only.
#pragma once

#include <cstdint>

#include <stepfuse/types.hpp>

#include "tools/workload/random.hpp"

namespace stepfuse {

// Which values are mixed into the ordinary ones.
enum class Spice : uint8_t {
  none,
  mild,       // zeros of both signs, subnormals, smallest normals: a step over them succeeds
  nonfinite,  // mild, plus some NaN and infinities
  huge,       // mild, plus some of the largest finite values, whose norm overflows
  all,
};

struct Filling {
  float scale = 1;  // standard deviation of ordinary floats, about; i32 are small
  Spice spice = Spice::none;
  // ordinary floats are positive, like a mean of squares; those of `spice` may be negative
  bool positive = false;
};

// Fills `count` values of `dtype` at `data`, starting with element 0 of the stream's array. With
// the spice nonfinite or huge, an array that is not empty has at least one such value.
void fill_values(void* data, uint64_t count, DType dtype, const RandomStream& random,
                 const Filling& filling);

}  // namespace stepfuse
