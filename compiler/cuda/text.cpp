// Writes types and literals of CUDA text. Knows ir's types and fmt.
#include "compiler/cuda/text.hpp"

#include <cmath>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

namespace stepfuse::cuda {

std::string_view c_type(DType t) {
  if (t == DType::f32) return "float";
  if (t == DType::f64) return "double";
  check_internal(t != DType::bound, "a plan has no bound type");
  return name(t);
}

namespace {

std::string integer_literal(int64_t v, DType t) {
  if (t == DType::i32) {
    return v == INT32_MIN ? "(-2147483647 - 1)" : fmt::format("{}", v);
  }
  return v == INT64_MIN ? "(-9223372036854775807ll - 1)" : fmt::format("{}ll", v);
}

}  // namespace

std::string c_literal(Bits v, DType t) {
  if (is_low_precision(t)) {
    return fmt::format("{}{{0x{:0{}x}}}", c_type(t), v.raw, 2 * size_of(t));
  }
  if (is_narrow_integer(t)) return fmt::format("{}({})", c_type(t), literal_text(v, t));
  switch (t) {
    case DType::boolean:
      return v.b() ? "true" : "false";
    case DType::i32:
      return integer_literal(v.i32(), t);
    case DType::i64:
      return integer_literal(v.i64(), t);
    case DType::f32:
      // C++ has no literal for a NaN or an infinity.
      if (!std::isfinite(v.f32())) return fmt::format("__uint_as_float(0x{:08x}u)", v.raw);
      return fmt::format("{:a}f", v.f32());
    case DType::f64:
      if (!std::isfinite(v.f64())) return fmt::format("__longlong_as_double(0x{:016x}ll)", v.raw);
      return fmt::format("{:a}", v.f64());
    default:
      internal_error("a constant has no bound type");
  }
}

}  // namespace stepfuse::cuda
