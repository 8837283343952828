// Exact conversions between double and the bits of a scalar dtype. Knows ir and fmt.
#include "runtime/step/numbers.hpp"

#include <cmath>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "ir/semantics/fp_env.hpp"
#include "ir/semantics/semantics.hpp"

namespace stepfuse {

Bits to_bits(double value, DType dtype, std::string_view what) {
  FpEnvGuard guard;  // conversions must not depend on the caller's rounding mode
  auto fail = [&](std::string_view problem) {
    throw Error(ErrorKind::usage,
                fmt::format("'{}' is {}: {} {}", what, name(dtype), value, problem));
  };
  switch (dtype) {
    case DType::f64:
      return Bits::of(value);
    case DType::f32:
      return Bits::of(static_cast<float>(value));
    case DType::boolean:
      if (value != 0 && value != 1) fail("is neither 0 nor 1");
      return Bits::of(value != 0);
    default:
      break;
  }
  double limit = dtype == DType::i32 ? 0x1p31 : 0x1p63;
  if (std::nearbyint(value) != value || !(value >= -limit && value < limit)) {
    fail("is not a whole number in its range");
  }
  return sem::cast(Bits::of(value), DType::f64, dtype);
}

double to_double(Bits v, DType dtype) {
  FpEnvGuard guard;
  switch (dtype) {
    case DType::boolean:
      return v.b() ? 1 : 0;
    case DType::i32:
      return v.i32();
    case DType::i64:
      return static_cast<double>(v.i64());
    case DType::f32:
      return v.f32();
    default:
      return v.f64();
  }
}

}  // namespace stepfuse
