// Exact conversions between double and the bits of a scalar dtype. Knows ir only.
#pragma once

#include <string_view>

#include <stepfuse/types.hpp>

namespace stepfuse {

// Throws Error{usage} naming `what` for a fraction or a value out of range of an integer or bool.
Bits to_bits(double value, DType dtype, std::string_view what);
// i64 beyond 2^53 rounds to nearest.
double to_double(Bits bits, DType dtype);

}  // namespace stepfuse
