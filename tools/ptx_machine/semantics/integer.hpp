// Integer arithmetic, logic and bit operations as functions of values.
#pragma once

#include <bit>
#include <limits>
#include <type_traits>

#include "tools/ptx_machine/numbers.hpp"

namespace ptx {

// Arithmetic wraps. It is done unsigned and at least 32 bits wide, because signed overflow is
// undefined in C++.
template <class T>
using Modular = std::conditional_t<sizeof(T) == 8, u64, u32>;
template <class T>
using Unsigned = std::make_unsigned_t<T>;
__extension__ using s128 = __int128;
__extension__ using u128 = unsigned __int128;
template <class T>
using Wider = std::conditional_t<
    sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, s128, u128>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, s64, u64>,
                       std::conditional_t<std::is_signed_v<T>, s32, u32>>>;

struct AddInt {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(Modular<T>(a) + Modular<T>(b));
  }
};
struct SubInt {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(Modular<T>(a) - Modular<T>(b));
  }
};
struct MulLo {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(Modular<T>(a) * Modular<T>(b));
  }
};
struct MulHi {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(static_cast<Wider<T>>(a) * static_cast<Wider<T>>(b) >> (8 * sizeof(T)));
  }
};
struct MulWide {
  template <class T>
  static Wider<T> of(T a, T b) {
    return static_cast<Wider<T>>(a) * static_cast<Wider<T>>(b);
  }
};
struct MadLo {
  template <class T>
  static T of(T a, T b, T c) {
    return AddInt::of(MulLo::of(a, b), c);
  }
};
struct MadHi {
  template <class T>
  static T of(T a, T b, T c) {
    return AddInt::of(MulHi::of(a, b), c);
  }
};
struct MadWide {
  template <class T>
  static Wider<T> of(T a, T b, Wider<T> c) {
    return AddInt::of(MulWide::of(a, b), c);
  }
};
struct Sad {
  template <class T>
  static T of(T a, T b, T c) {
    return AddInt::of(c, a < b ? SubInt::of(b, a) : SubInt::of(a, b));
  }
};
// The result of a division by zero is unspecified. Hardware gives all ones, and so does this, since
// a compiler may divide first and select afterwards.
struct DivInt {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return static_cast<T>(~Unsigned<T>{0});
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return SubInt::of(T{0}, a);
    }
    return static_cast<T>(a / b);
  }
};
struct RemInt {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return static_cast<T>(~Unsigned<T>{0});
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return T{0};
    }
    return static_cast<T>(a % b);
  }
};
struct AbsInt {
  template <class T>
  static T of(T a) {
    return a < 0 ? SubInt::of(T{0}, a) : a;
  }
};
struct NegInt {
  template <class T>
  static T of(T a) {
    return SubInt::of(T{0}, a);
  }
};
struct MinInt {
  template <class T>
  static T of(T a, T b) {
    return b < a ? b : a;
  }
};
struct MaxInt {
  template <class T>
  static T of(T a, T b) {
    return a < b ? b : a;
  }
};

struct And {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  static T of(T a) {
    if constexpr (std::is_same_v<T, bool>) {
      return !a;
    } else {
      return static_cast<T>(~a);
    }
  }
};
// Shift amounts beyond the width are clamped to it.
struct Shl {
  template <class T>
  static T of(T a, u32 n) {
    return n >= 8 * sizeof(T) ? T{0} : static_cast<T>(Modular<T>(a) << n);
  }
};
struct Shr {
  template <class T>
  static T of(T a, u32 n) {
    constexpr u32 kBits = 8 * sizeof(T);
    if (n >= kBits) return a < 0 ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> n);
  }
};

struct PopCount {
  template <class T>
  static u32 of(T a) {
    return static_cast<u32>(std::popcount(a));
  }
};
struct CountLeadingZeros {
  template <class T>
  static u32 of(T a) {
    return static_cast<u32>(std::countl_zero(a));
  }
};
struct ReverseBits {
  template <class T>
  static T of(T a) {
    T out = 0;
    for (u32 k = 0; k < 8 * sizeof(T); ++k) out = static_cast<T>(out << 1 | (a >> k & 1));
    return out;
  }
};
// The highest bit that differs from the sign, or ~0 if all are equal.
struct FindBit {
  template <class T>
  static u32 of(T a) {
    auto bits = static_cast<Unsigned<T>>(a < 0 ? ~a : a);
    return bits == 0 ? ~u32{0} : static_cast<u32>(8 * sizeof(T) - 1) - CountLeadingZeros::of(bits);
  }
};
struct FindBitShift {
  template <class T>
  static u32 of(T a) {
    u32 at = FindBit::of(a);
    return at == ~u32{0} ? at : static_cast<u32>(8 * sizeof(T) - 1) - at;
  }
};
struct ExtractField {
  template <class T>
  static T of(T a, u32 position, u32 length) {
    constexpr u32 kTop = 8 * sizeof(T) - 1;
    position &= 255;
    length &= 255;
    u32 sign_at = position + length == 0 ? 0 : std::min(position + length - 1, kTop);
    bool sign = std::is_signed_v<T> && length != 0 && (a >> sign_at & 1) != 0;
    Unsigned<T> out = 0;
    for (u32 k = 0; k <= kTop; ++k) {
      bool bit = k < length && position + k <= kTop ? (a >> (position + k) & 1) != 0 : sign;
      out |= static_cast<Unsigned<T>>(bit) << k;
    }
    return static_cast<T>(out);
  }
};
struct InsertField {
  template <class T>
  static T of(T from, T into, u32 position, u32 length) {
    position &= 255;
    length &= 255;
    for (u32 k = 0; k < length && position + k < 8 * sizeof(T); ++k) {
      T bit = T{1} << (position + k);
      into = (from >> k & 1) != 0 ? into | bit : into & ~bit;
    }
    return into;
  }
};

// {b, a} shifted as one 64-bit value; `c` is clamped to 32 or wrapped.
struct FunnelLeft {
  static u32 of(u32 a, u32 b, u32 n) { return n == 0 ? b : n >= 32 ? a : b << n | a >> (32 - n); }
};
struct FunnelRight {
  static u32 of(u32 a, u32 b, u32 n) { return n == 0 ? a : n >= 32 ? b : b << (32 - n) | a >> n; }
};
struct LeftWrap {
  static u32 of(u32 a, u32 b, u32 n) { return FunnelLeft::of(a, b, n & 31); }
};
struct RightWrap {
  static u32 of(u32 a, u32 b, u32 n) { return FunnelRight::of(a, b, n & 31); }
};
// Each result byte is one of the eight source bytes, or that byte's sign eight times.
struct Permute {
  static u32 of(u32 a, u32 b, u32 selector) {
    u64 bytes = u64{b} << 32 | a;
    u32 out = 0;
    for (u32 k = 0; k < 4; ++k) {
      u32 choice = selector >> (4 * k) & 15;
      u32 byte = bytes >> (8 * (choice & 7)) & 255;
      if ((choice & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
      out |= byte << (8 * k);
    }
    return out;
  }
};
struct Logic3 {
  static u32 of(u32 a, u32 b, u32 c, u32 table) {
    u32 out = 0;
    for (u32 k = 0; k < 8; ++k) {
      if ((table >> k & 1) == 0) continue;
      out |= ((k & 4) != 0 ? a : ~a) & ((k & 2) != 0 ? b : ~b) & ((k & 1) != 0 ? c : ~c);
    }
    return out;
  }
};

}  // namespace ptx
