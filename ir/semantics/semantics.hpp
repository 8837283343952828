// The result of each elementwise op on one value. The interpreter and constant folding call these
// definitions, and every backend must equal them bit for bit. Knows only std.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <stepfuse/ops.hpp>
#include <stepfuse/types.hpp>

#include "ir/semantics/narrow.hpp"
#include "ir/semantics/powers.hpp"

namespace stepfuse::sem {

template <class T>
using Unsigned = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// Integers wrap around.
template <class T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(Unsigned<T>(a) + Unsigned<T>(b));
  else
    return a + b;
}
template <class T>
T sub(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(Unsigned<T>(a) - Unsigned<T>(b));
  else
    return a - b;
}
template <class T>
T mul(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(Unsigned<T>(a) * Unsigned<T>(b));
  else
    return a * b;
}
// For integers, x/0 = 0 and MIN/-1 = MIN.
template <class T>
T div(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    return b == -1 ? sub<T>(0, a) : a / b;
  } else {
    return a / b;
  }
}
// Flips a float's sign, even that of a NaN.
template <class T>
T neg(T a) {
  if constexpr (std::is_integral_v<T>)
    return sub<T>(0, a);
  else
    return -a;
}
template <class T>
T abs(T a) {
  if constexpr (std::is_integral_v<T>)
    return a < 0 ? neg(a) : a;
  else
    return std::fabs(a);
}

// Returns -1 or 1; a zero and a NaN are returned unchanged.
template <class T>
T sign(T a) {
  return a > 0 ? T(1) : a < 0 ? T(-1) : a;
}
// Rounds to the nearest integer, ties to even: the mode that the numerics contract sets.
template <class T>
T rint(T a) {
  return std::nearbyint(a);
}

// IEEE 754-2019 minimum and maximum: NaN propagates, and -0 < +0.
template <class T>
T min(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) ? a : b;
  }
  return a < b ? a : b;
}
template <class T>
T max(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a > b ? a : b;
}

// Returns NaN if any operand is NaN, and `high` if the bounds are in the wrong order.
template <class T>
T clamp(T a, T low, T high) {
  return min(max(a, low), high);
}

// Shifts in zeros from both sides; the distance is taken modulo the width.
template <class T>
T shl(T a, T distance) {
  return static_cast<T>(Unsigned<T>(a) << (Unsigned<T>(distance) % (8 * sizeof(T))));
}
template <class T>
T shr(T a, T distance) {
  return static_cast<T>(Unsigned<T>(a) >> (Unsigned<T>(distance) % (8 * sizeof(T))));
}

// Squares repeatedly, low bit first. The order is part of the contract.
template <class T, class I>
T powi(T base, I exponent) {
  uint64_t n = exponent < 0 ? 0 - static_cast<uint64_t>(static_cast<int64_t>(exponent))
                            : static_cast<uint64_t>(exponent);
  T r = 1;
  while (n != 0) {
    if (n & 1U) r = r * base;
    n >>= 1;
    if (n != 0) base = base * base;
  }
  return exponent < 0 ? T(1) / r : r;
}

// Truncates and saturates; NaN becomes 0.
template <class I, class F>
I float_to_int(F v) {
  if (std::isnan(v)) return 0;
  constexpr F kLimit = static_cast<F>(uint64_t{1} << (sizeof(I) * 8 - 1));  // 2^31 or 2^63
  if (v >= kLimit) return std::numeric_limits<I>::max();
  if (v <= -kLimit) return std::numeric_limits<I>::min();
  return static_cast<I>(v);
}

// Returns a narrow integer's value as the bits of an i32.
inline uint32_t widen_integer(uint32_t bits, DType t) {
  uint32_t sign = info(t).kind == DTypeKind::natural ? 0 : static_cast<uint32_t>(info(t).sign());
  return (bits ^ sign) - sign;
}

// Handles exactly the pairs that the verifier allows.
inline Bits cast(Bits v, DType from, DType to) {
  if (from == to) return v;
  if (is_low_precision(from)) return Bits::of(widen(v.u32(), from));
  if (is_low_precision(to)) return {narrow(v.f32(), to)};
  if (is_narrow_integer(from)) return {widen_integer(v.u32(), from)};
  if (is_narrow_integer(to)) return {v.raw & ((uint64_t{1} << 8 * size_of(to)) - 1)};
  auto convert = [&](auto x) -> Bits {
    using T = decltype(x);
    switch (to) {
      case DType::f32:
        return Bits::of(static_cast<float>(x));
      case DType::f64:
        return Bits::of(static_cast<double>(x));
      case DType::i32:
        if constexpr (std::is_floating_point_v<T>)
          return Bits::of(float_to_int<int32_t>(x));
        else
          return Bits::of(static_cast<int32_t>(static_cast<uint32_t>(x)));
      default:
        if constexpr (std::is_floating_point_v<T>)
          return Bits::of(float_to_int<int64_t>(x));
        else
          return Bits::of(static_cast<int64_t>(x));
    }
  };
  switch (from) {
    case DType::boolean:
      return convert(static_cast<int32_t>(v.b()));
    case DType::i32:
      return convert(v.i32());
    case DType::i64:
      return convert(v.i64());
    case DType::f32:
      return convert(v.f32());
    default:
      return convert(v.f64());
  }
}

// Rounds f32 to a narrower float stochastically; see narrow_stochastic().
inline Bits cast_sr(Bits v, Bits random, DType to) {
  return to == DType::f32 ? v : Bits{narrow_stochastic(v.f32(), random.u32(), to)};
}

// Returns the bits of `v` as a value of a different type. NaNs become one pattern, because machines differ
// in the bits that an operation gives them. A narrower type takes the low bits, and a wider integer is
// zero-extended.
inline Bits bitcast(Bits v, DType from, DType to) {
  Bits bits = canonical_nan(v, from);
  return size_of(to) < sizeof bits.raw ? Bits{bits.raw & ((uint64_t{1} << 8 * size_of(to)) - 1)}
                                       : bits;
}

// Applies the op to operands of C++ type T (except casts, bitcast, powi, select and bit operations).
template <class T>
Bits apply_number(Op op, T a, T b, T c) {
  switch (op) {
    case Op::neg:
      return Bits::of(neg(a));
    case Op::abs:
      return Bits::of(abs(a));
    case Op::sign:
      return Bits::of(sign(a));
    case Op::add:
      return Bits::of(add(a, b));
    case Op::sub:
      return Bits::of(sub(a, b));
    case Op::mul:
      return Bits::of(mul(a, b));
    case Op::div:
      return Bits::of(div(a, b));
    case Op::min:
      return Bits::of(min(a, b));
    case Op::max:
      return Bits::of(max(a, b));
    case Op::clamp:
      return Bits::of(clamp(a, b, c));
    case Op::lt:
      return Bits::of(a < b);
    case Op::le:
      return Bits::of(a <= b);
    case Op::gt:
      return Bits::of(a > b);
    case Op::eq:
      return Bits::of(a == b);
    case Op::ne:
      return Bits::of(a != b);
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    switch (op) {
      case Op::sqrt:
        return Bits::of(std::sqrt(a));
      case Op::rcp:
        return Bits::of(T(1) / a);
      case Op::rint:
        return Bits::of(rint(a));
      case Op::floor:
        return Bits::of(std::floor(a));
      case Op::exp2:
        return Bits::of(exp2(a));
      case Op::log2:
        return Bits::of(log2(a));
      case Op::pow:
        return Bits::of(pow(a, b));
      case Op::isfinite:
        return Bits::of(static_cast<bool>(std::isfinite(a)));
      case Op::fma:
        return Bits::of(std::fma(a, b, c));
      default:
        break;
    }
  } else {
    switch (op) {
      case Op::shl:
        return Bits::of(shl(a, b));
      case Op::shr:
        return Bits::of(shr(a, b));
      default:
        break;
    }
  }
  return {};
}

// Applies one elementwise op. `in` is the dtype of the first operand that decides (for select, the second),
// and `out` that of the result.
inline Bits evaluate(Op op, DType in, DType out, Bits a, Bits b, Bits c) {
  switch (op) {
    case Op::cast:
      return cast(a, in, out);
    case Op::cast_sr:
      return cast_sr(a, b, out);
    case Op::bitcast:
      return bitcast(a, in, out);
    case Op::select:
      return a.b() ? b : c;
    case Op::logical_not:
      return Bits::of(!a.b());
    case Op::bit_and:
      return {a.raw & b.raw};
    case Op::bit_or:
      return {a.raw | b.raw};
    case Op::bit_xor:
      return {a.raw ^ b.raw};
    default:
      break;
  }
  switch (in) {
    case DType::i32:
      return apply_number(op, a.i32(), b.i32(), c.i32());
    case DType::i64:
      return apply_number(op, a.i64(), b.i64(), c.i64());
    case DType::f32:
      return apply_number(op, a.f32(), b.f32(), c.f32());
    case DType::f64:
      return apply_number(op, a.f64(), b.f64(), c.f64());
    default:
      return {};
  }
}

// The exponent of powi has a dtype of its own.
inline Bits evaluate_powi(DType base, DType exponent, Bits b, Bits e) {
  int64_t n = exponent == DType::i32 ? e.i32() : e.i64();
  return base == DType::f32 ? Bits::of(powi(b.f32(), n)) : Bits::of(powi(b.f64(), n));
}

}  // namespace stepfuse::sem
