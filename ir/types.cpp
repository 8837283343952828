// Names, sizes and literal text of dtypes. Knows only std and fmt.
#include <charconv>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include <stepfuse/error.hpp>
#include <stepfuse/types.hpp>

#include "ir/float16.hpp"
#include "ir/fp_env.hpp"

namespace stepfuse {
namespace {
struct DTypeInfo {
  std::string_view name;
  size_t size;
  uint64_t canonical_nan;
};
constexpr DTypeInfo kDTypes[kDTypeCount] = {
    {"bool", 1, 0},
    {"i32", 4, 0},
    {"i64", 8, 0},
    {"f16", 2, 0x7fff},
    {"bf16", 2, 0x7fff},
    {"f32", 4, 0x7fc00000},
    {"f64", 8, 0x7ff8000000000000ULL},
};
const DTypeInfo& row(DType t) {
  check_internal(t != DType::bound, "a bound type has no row: resolve it first");
  return kDTypes[static_cast<size_t>(t)];
}

// Any float's value as a double, exactly.
double value_of(Bits v, DType t) {
  switch (t) {
    case DType::f16:
      return f16_to_f32(v.u16());
    case DType::bf16:
      return bf16_to_f32(v.u16());
    case DType::f32:
      return v.f32();
    case DType::f64:
      return v.f64();
    default:
      internal_error("not a float");
  }
}

// The shortest decimal that is nearest to `v` among the 16-bit values of type `t`; of equally short
// ones the most exact.
std::string shortest_16(Bits v, DType t) {
  double value = value_of(v, t);
  std::string best = fmt::format("{}", value);
  auto consider = [&](const std::string& decimal) {
    double wide = 0;
    float narrow = 0;
    std::from_chars(decimal.data(), decimal.data() + decimal.size(), wide);
    std::from_chars(decimal.data(), decimal.data() + decimal.size(), narrow);
    uint16_t bits = t == DType::f16 ? f32_to_f16(narrow) : f32_to_bf16(narrow);
    std::string text = fmt::format("{}", wide);
    if (bits == v.u16() && text.size() < best.size()) best = text;
  };
  for (int digits = 8; digits > 0; --digits) {
    std::string nearest = fmt::format("{:.{}e}", value, digits - 1);
    consider(nearest);
    // At a power of two more values are rounded down to it than up.
    size_t last = nearest.find('e') - 1;
    if (nearest[last] < '9') ++nearest[last];
    consider(nearest);
  }
  return best;
}
}  // namespace

std::string_view name(DType t) { return t >= DType::bound ? "bound" : row(t).name; }
size_t size_of(DType t) { return row(t).size; }

std::optional<DType> dtype_from_name(std::string_view text) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kDTypes[i].name == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

Bits load_bits(const void* p, DType t) {
  Bits v;
  std::memcpy(&v.raw, p, size_of(t));  // little-endian hosts only, as both platforms are
  if (t == DType::boolean)
    v.raw = v.raw != 0 ? 1 : 0;  // any byte is one of the two, as for kernels
  return v;
}
void store_bits(void* p, DType t, Bits v) { std::memcpy(p, &v.raw, size_of(t)); }

Bits canonical_nan(Bits v, DType t) {
  if (is_float(t) && std::isnan(value_of(v, t))) return {row(t).canonical_nan};
  return v;
}

std::string literal_text(Bits v, DType t) {
  FpEnvGuard guard;  // which text is the nearest does not depend on the caller's rounding mode
  switch (t) {
    case DType::boolean:
      return v.b() ? "true" : "false";
    case DType::i32:
      return fmt::format("{}", v.i32());
    case DType::i64:
      return fmt::format("{}", v.i64());
    default:
      break;
  }
  double d = value_of(v, t);
  if (std::isnan(d)) {
    return v.raw == row(t).canonical_nan ? "nan" : fmt::format("bits({:#x})", v.raw);
  }
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  if (is_low_precision(t)) return shortest_16(v, t);
  return t == DType::f32 ? fmt::format("{}", v.f32()) : fmt::format("{}", d);
}

}  // namespace stepfuse
