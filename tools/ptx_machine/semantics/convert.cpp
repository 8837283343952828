// The conversions; knows IEEE formats and registers.
#include "tools/ptx_machine/semantics/convert.hpp"

#include <cmath>
#include <limits>

#include "tools/ptx_machine/semantics/real.hpp"

namespace ptx {

u16 narrow_to_16(f32 value, u32 exponent_bits) {
  u32 bits = std::bit_cast<u32>(value);
  auto sign = static_cast<u16>(bits >> 16 & 0x8000u);
  if (value != value) return 0x7FFF;
  u32 mantissa_bits = 15 - exponent_bits;
  s32 bias = (1 << (exponent_bits - 1)) - 1;
  u32 infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  s32 exponent = static_cast<s32>(bits >> 23 & 255);
  if (exponent == 255) return static_cast<u16>(sign | infinity);
  u64 mantissa = bits & 0x7FFFFFu;
  if (exponent == 0) {
    exponent = 1;
  } else {
    mantissa |= 0x800000u;
  }
  s32 target = exponent - 127 + bias;  // its biased exponent, were the result normal
  s32 drop = static_cast<s32>(23 - mantissa_bits) + (target < 1 ? 1 - target : 0);
  if (drop > 40) return sign;
  u64 kept = mantissa >> drop;
  u64 rest = mantissa & ((u64{1} << drop) - 1);
  u64 half = u64{1} << (drop - 1);
  if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  // `kept` carries the hidden bit; added below the exponent it carries itself into it.
  u64 out = target < 1 ? kept : kept + (static_cast<u64>(target - 1) << mantissa_bits);
  return static_cast<u16>(sign | std::min<u64>(out, infinity));
}

f32 from_bf16(u16 bits) { return std::bit_cast<f32>(static_cast<u32>(bits) << 16); }

f32 from_f16(u16 bits) {
  u32 sign = static_cast<u32>(bits & 0x8000u) << 16;
  u32 exponent = bits >> 10 & 31u;
  u32 mantissa = bits & 1023u;
  if (exponent == 31) {
    return std::bit_cast<f32>(mantissa != 0 ? kNan32 : sign | 0x7F80'0000u);
  }
  if (exponent == 0) {
    f32 magnitude = std::ldexp(static_cast<f32>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<f32>(sign | (exponent + 112) << 23 | mantissa << 13);
}

namespace {

template <class D, class A>
u64 cast_slot(u64 a) {
  return to_slot(canonical(static_cast<D>(from_slot<A>(a))));
}

enum class Rounding : u8 { nearest, zero, down, up };

template <Rounding R, class T>
T rounded(T value) {
  switch (R) {
    case Rounding::nearest:
      return std::nearbyint(value);
    case Rounding::zero:
      return std::trunc(value);
    case Rounding::down:
      return std::floor(value);
    case Rounding::up:
      return std::ceil(value);
  }
  return value;
}

// NaN becomes 0, but where a 64-bit type takes part the top bit alone; all else saturates.
template <Rounding R, class D, class A>
u64 to_integer_slot(u64 a) {
  A value = from_slot<A>(a);
  D out;
  if (value != value) {
    bool zero = sizeof(A) == 4 && sizeof(D) <= 4;
    out = zero ? D{0} : static_cast<D>(std::make_unsigned_t<D>{1} << (8 * sizeof(D) - 1));
  } else {
    value = rounded<R>(value);
    // 2^(bits of magnitude), exact in either format.
    A limit = std::ldexp(A{1}, std::numeric_limits<D>::digits);
    if (value >= limit) {
      out = std::numeric_limits<D>::max();
    } else if (value < static_cast<A>(std::numeric_limits<D>::min())) {
      out = std::numeric_limits<D>::min();
    } else {
      out = static_cast<D>(value);
    }
  }
  return to_slot(out);
}

template <Rounding R, class T>
u64 integral_slot(u64 a) {
  return to_slot(canonical(rounded<R>(from_slot<T>(a))));
}

template <class D, class... As>
Run cast_from(Type from, Instruction& i, Types<As...>) {
  Run run = nullptr;
  ((holds<As>(from) ? static_cast<void>(run = run_of<&cast_slot<D, As>, D, As>(i)) : void()), ...);
  return run;
}
template <class... Ds, class From>
Run cast_to(const Form& form, Instruction& i, Types<Ds...>, From from) {
  Run run = nullptr;
  ((holds<Ds>(form.first) ? static_cast<void>(run = cast_from<Ds>(form.type, i, from)) : void()),
   ...);
  return run;
}

using AllIntegers = Types<u8, u16, u32, u64, s8, s16, s32, s64>;

template <Rounding R, class A, class... Ds>
Run to_integer(const Form& form, Instruction& i, Types<Ds...>) {
  Run run = nullptr;
  ((holds<Ds>(form.first) ? static_cast<void>(run = run_of<&to_integer_slot<R, Ds, A>, Ds, A>(i))
                          : void()),
   ...);
  return run;
}
template <Rounding R>
Run to_integer_rounding(const Form& form, Instruction& i) {
  using Targets = Types<u8, u16, u32, u64, s8, s16, s32, s64>;
  return form.type == Type::f32 ? to_integer<R, f32>(form, i, Targets{})
                                : to_integer<R, f64>(form, i, Targets{});
}
template <Rounding R>
Run integral_rounding(const Form& form, Instruction& i) {
  if (form.first != form.type) return nullptr;
  return form.type == Type::f32 ? run_of<&integral_slot<R, f32>, f32, f32>(i)
                                : run_of<&integral_slot<R, f64>, f64, f64>(i);
}

template <u16 (*Narrow)(f32)>
u64 to_half_slot(u64 a) {
  return Narrow(from_slot<f32>(a));
}
template <f32 (*Widen)(u16)>
u64 from_half_slot(u64 a) {
  return to_slot(canonical(Widen(static_cast<u16>(a))));
}
// The first source goes to the upper half.
template <u16 (*Narrow)(f32)>
u64 to_pair_slot(u64 a, u64 b) {
  u32 high = Narrow(from_slot<f32>(a));
  return high << 16 | Narrow(from_slot<f32>(b));
}

// By way of f32, which holds every value of either type.
template <u16 (*Narrow)(f32), f32 (*Widen)(u16)>
u64 maximum_of_pairs_slot(u64 a, u64 b) {
  auto larger = [&](u32 shift) -> u32 {
    auto half = [&](u64 slot) { return Widen(static_cast<u16>(slot >> shift)); };
    return Narrow(MaxRealNan::of(half(a), half(b)));
  };
  return larger(16) << 16 | larger(0);
}

}  // namespace

Run convert_integer(const Form& form, Instruction& i) {
  return cast_to(form, i, AllIntegers{}, AllIntegers{});
}
Run convert_to_real(const Form& form, Instruction& i) {
  return cast_to(form, i, Reals{}, AllIntegers{});
}
Run convert_real(const Form& form, Instruction& i) {
  bool narrows = form.first == Type::f32 && form.type == Type::f64;
  if (form.first == form.type || narrows != form.has("rn")) return nullptr;
  return cast_to(form, i, Reals{}, Reals{});
}
Run convert_to_integer(const Form& form, Instruction& i) {
  if (form.has("rni")) return to_integer_rounding<Rounding::nearest>(form, i);
  if (form.has("rzi")) return to_integer_rounding<Rounding::zero>(form, i);
  if (form.has("rmi")) return to_integer_rounding<Rounding::down>(form, i);
  return to_integer_rounding<Rounding::up>(form, i);
}
Run round_to_integral(const Form& form, Instruction& i) {
  if (form.has("rni")) return integral_rounding<Rounding::nearest>(form, i);
  if (form.has("rzi")) return integral_rounding<Rounding::zero>(form, i);
  if (form.has("rmi")) return integral_rounding<Rounding::down>(form, i);
  return integral_rounding<Rounding::up>(form, i);
}
Run convert_to_half(const Form& form, Instruction& i) {
  return form.first == Type::f16 ? run_of<&to_half_slot<to_f16>, u16, f32>(i)
                                 : run_of<&to_half_slot<to_bf16>, u16, f32>(i);
}
Run convert_from_half(const Form& form, Instruction& i) {
  return form.type == Type::f16 ? run_of<&from_half_slot<from_f16>, f32, u16>(i)
                                : run_of<&from_half_slot<from_bf16>, f32, u16>(i);
}
Run convert_to_half_pair(const Form& form, Instruction& i) {
  return form.first == Type::f16x2 ? run_of<&to_pair_slot<to_f16>, u32, f32>(i)
                                   : run_of<&to_pair_slot<to_bf16>, u32, f32>(i);
}
Run maximum_of_pairs(const Form& form, Instruction& i) {
  return form.type == Type::f16x2 ? run_of<&maximum_of_pairs_slot<to_f16, from_f16>, u32, u32>(i)
                                  : run_of<&maximum_of_pairs_slot<to_bf16, from_bf16>, u32, u32>(i);
}

}  // namespace ptx
