// Exact conversions between double and the bits of a scalar dtype. Knows ir only.
#pragma once

#include <string_view>

#include <stepfuse/types.hpp>

namespace stepfuse {

// Throws Error{usage} that names `what` if the value does not fit the dtype, or is a fraction for an
// integer or bool.
Bits to_bits(double value, DType dtype, std::string_view what);
// An i64 beyond 2^53 is rounded to nearest.
double to_double(Bits bits, DType dtype);

}  // namespace stepfuse
