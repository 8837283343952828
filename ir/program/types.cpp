// Names, sizes and literal text of dtypes. Knows only std and fmt.
#include <charconv>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include <stepfuse/error.hpp>
#include <stepfuse/types.hpp>

#include "ir/semantics/fp_env.hpp"
#include "ir/semantics/narrow.hpp"

namespace stepfuse {
namespace {
// Returns any float's value as a double, exactly.
double value_of(Bits v, DType t) {
  if (is_low_precision(t)) return widen(v.u32(), t);
  return t == DType::f32 ? v.f32() : v.f64();
}

// Returns the shortest decimal whose nearest value of the low-precision type `t` is `v`; among equally
// short ones the most exact.
std::string shortest_low(Bits v, DType t) {
  double value = value_of(v, t);
  std::string best = fmt::format("{}", value);
  auto consider = [&](const std::string& decimal) {
    double wide = 0;
    float single = 0;
    std::from_chars(decimal.data(), decimal.data() + decimal.size(), wide);
    std::from_chars(decimal.data(), decimal.data() + decimal.size(), single);
    std::string text = fmt::format("{}", wide);
    if (narrow(single, t) == v.raw && text.size() < best.size()) best = text;
  };
  for (int digits = 8; digits > 0; --digits) {
    std::string nearest = fmt::format("{:.{}e}", value, digits - 1);
    consider(nearest);
    // Try the next larger decimal as well: above a power of two, the interval that rounds to it is wider
    // than below.
    size_t last = nearest.find('e') - 1;
    if (nearest[last] < '9') ++nearest[last];
    consider(nearest);
  }
  return best;
}
}  // namespace

std::string_view name(DType t) {
  if (t == DType::absent) return "none";
  if (t == DType::bound) return "bound";
  return t < DType::bound ? info(t).name : "an unknown type";
}
size_t size_of(DType t) {
  if (t == DType::absent) return 0;
  check_internal(t < DType::bound, "a bound type has no row: resolve it first");
  return info(t).bytes;
}

std::optional<DType> dtype_from_name(std::string_view text) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kDTypes[i].name == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::string names(DTypeSet set, std::string_view separator) {
  std::string out;
  for (DType t : set) {
    if (!out.empty()) out += separator;
    out += name(t);
  }
  return out;
}

Bits load_bits(const void* p, DType t) {
  Bits v;
  // Only for little-endian hosts, as all supported platforms are.
  std::memcpy(&v.raw, p, size_of(t));
  if (t == DType::boolean)
    v.raw = v.raw != 0 ? 1 : 0;  // kernels also take any non-zero byte as true
  return v;
}
void store_bits(void* p, DType t, Bits v) { std::memcpy(p, &v.raw, size_of(t)); }

bool is_nan(Bits v, DType t) {
  return is_float(t) && (v.raw & (info(t).sign() - 1)) > info(t).highest;
}
Bits canonical_nan(Bits v, DType t) { return is_nan(v, t) ? Bits{info(t).nan} : v; }

std::string literal_text(Bits v, DType t) {
  if (is_narrow_integer(t)) {
    auto value = static_cast<int64_t>(v.raw);
    bool negative = info(t).kind == DTypeKind::integer && (v.raw & info(t).sign()) != 0;
    return fmt::format("{}", negative ? value - (int64_t{1} << 8 * size_of(t)) : value);
  }
  FpEnvGuard guard;  // the nearest text must not depend on the caller's rounding mode
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
  if (is_nan(v, t)) return v.raw == info(t).nan ? "nan" : fmt::format("bits({:#x})", v.raw);
  double d = value_of(v, t);
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  if (is_low_precision(t)) return shortest_low(v, t);
  return t == DType::f32 ? fmt::format("{}", v.f32()) : fmt::format("{}", d);
}

}  // namespace stepfuse
