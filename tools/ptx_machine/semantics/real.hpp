// Floating-point arithmetic as functions of values; every result is rounded once, to nearest even.
#pragma once

#include <cmath>

#include "tools/ptx_machine/semantics/apply.hpp"

namespace ptx {

struct AddReal {
  template <class T>
  static T of(T a, T b) {
    return canonical(a + b, a, b);
  }
};
struct SubReal {
  template <class T>
  static T of(T a, T b) {
    return canonical(a - b, a, b);
  }
};
struct MulReal {
  template <class T>
  static T of(T a, T b) {
    return canonical(a * b, a, b);
  }
};
struct DivReal {
  template <class T>
  static T of(T a, T b) {
    return canonical(a / b, a, b);
  }
};
struct Reciprocal {
  template <class T>
  static T of(T a) {
    return canonical(T{1} / a, a);
  }
};
struct SquareRoot {
  template <class T>
  static T of(T a) {
    return canonical(std::sqrt(a), a);
  }
};
// The only double-precision operation for which the ISA promises no payload.
struct FusedMultiplyAdd {
  template <class T>
  static T of(T a, T b, T c) {
    return canonical(std::fma(a, b, c));
  }
};

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, u32, u64>;
template <class T>
inline constexpr BitsOf<T> kSignBit = BitsOf<T>{1} << (8 * sizeof(T) - 1);

struct AbsReal {
  template <class T>
  static T of(T a) {
    return std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) & ~kSignBit<T>);
  }
};
struct NegReal {
  template <class T>
  static T of(T a) {
    return std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) ^ kSignBit<T>);
  }
};
// b with the sign of a: the operands' order is the reverse of C's.
struct CopySign {
  template <class T>
  static T of(T a, T b) {
    return std::bit_cast<T>((std::bit_cast<BitsOf<T>>(a) & kSignBit<T>) |
                            (std::bit_cast<BitsOf<T>>(b) & ~kSignBit<T>));
  }
};

template <class T>
T quiet_nan() {
  return sizeof(T) == 4 ? std::bit_cast<T>(static_cast<BitsOf<T>>(kNan32))
                        : std::bit_cast<T>(static_cast<BitsOf<T>>(0x7FFF'FFFF'FFFF'FFFF));
}
// -0 is below +0; one NaN gives the other operand, two give the canonical one.
struct MinReal {
  template <class T>
  static T of(T a, T b) {
    if (a != a && b != b) return quiet_nan<T>();
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
  }
};
struct MaxReal {
  template <class T>
  static T of(T a, T b) {
    if (a != a && b != b) return quiet_nan<T>();
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? b : a;
    return a < b ? b : a;
  }
};
struct MinRealNan {
  template <class T>
  static T of(T a, T b) {
    return a != a || b != b ? quiet_nan<T>() : MinReal::of(a, b);
  }
};
struct MaxRealNan {
  template <class T>
  static T of(T a, T b) {
    return a != a || b != b ? quiet_nan<T>() : MaxReal::of(a, b);
  }
};

enum class Property : u8 { finite, infinite, number, notanumber, normal, subnormal };

template <Property P>
struct TestProperty {
  template <class T>
  static bool of(T a) {
    switch (P) {
      case Property::finite:
        return std::isfinite(a);
      case Property::infinite:
        return std::isinf(a);
      case Property::number:
        return !std::isnan(a);
      case Property::notanumber:
        return std::isnan(a);
      case Property::normal:
        return std::isnormal(a);
      case Property::subnormal:
        return std::fpclassify(a) == FP_SUBNORMAL;
    }
    return false;
  }
};

}  // namespace ptx
