// Turns a function of values into a semantic function of registers, for each type of a list.
#pragma once

#include "tools/ptx_machine/form.hpp"
#include "tools/ptx_machine/thread.hpp"

namespace ptx {

template <class... Ts>
struct Types {};

using Integers = Types<u16, u32, u64, s16, s32, s64>;
using Bits = Types<u16, u32, u64>;
using Reals = Types<f32, f64>;

// Whether the PTX type is held in T; .b types are held unsigned.
template <class T>
constexpr bool holds(Type type) {
  Kind kind = info(type).kind;
  if constexpr (std::is_same_v<T, bool>) {
    return kind == Kind::pred;
  } else if constexpr (std::is_floating_point_v<T>) {
    return kind == Kind::real && bytes_of(type) == sizeof(T);
  } else if constexpr (std::is_signed_v<T>) {
    return kind == Kind::signed_int && bytes_of(type) == sizeof(T);
  } else {
    return (kind == Kind::bits || kind == Kind::unsigned_int) && bytes_of(type) == sizeof(T);
  }
}

// A single-precision operation never hands a NaN's payload on; it makes this one.
inline constexpr u32 kNan32 = 0x7FFF'FFFF;
// What a double-precision operation makes of numbers; of NaN operands the first one's payload stays.
inline constexpr u64 kNan64 = 0xFFF8'0000'0000'0000;
inline constexpr u64 kQuiet64 = 0x0008'0000'0000'0000;

// The result of an operation, whatever NaN this machine makes of it. `operands`: those whose
// payload the ISA hands on.
template <class T, class... Operands>
T canonical(T value, Operands... operands) {
  if constexpr (std::is_same_v<T, f32>) {
    return value != value ? std::bit_cast<f32>(kNan32) : value;
  } else if constexpr (std::is_same_v<T, f64>) {
    if (value == value) return value;
    u64 bits = 0;
    auto look = [&](T operand) {
      if (bits == 0 && operand != operand) bits = std::bit_cast<u64>(operand) | kQuiet64;
    };
    (look(operands), ...);
    return std::bit_cast<f64>(bits != 0 ? bits : kNan64);
  } else {
    return value;
  }
}

template <class Op, class T>
void run_unary(Thread& t, const Instruction& i) {
  t.r[i.d] = to_slot(Op::of(from_slot<T>(t.r[i.a])));
}

template <class Op, class T>
void run_binary(Thread& t, const Instruction& i) {
  t.r[i.d] = to_slot(Op::of(from_slot<T>(t.r[i.a]), from_slot<T>(t.r[i.b])));
}

// The second operand of a shift is a .u32 whatever the type.
template <class Op, class T>
void run_shift(Thread& t, const Instruction& i) {
  t.r[i.d] = to_slot(Op::of(from_slot<T>(t.r[i.a]), static_cast<u32>(t.r[i.b])));
}

template <class Op, class T>
void run_ternary(Thread& t, const Instruction& i) {
  t.r[i.d] =
      to_slot(Op::of(from_slot<T>(t.r[i.a]), from_slot<T>(t.r[i.b]), from_slot<T>(t.r[i.c])));
}

// mad.wide: the third operand has the result's width.
template <class Op, class T>
void run_wide_ternary(Thread& t, const Instruction& i) {
  using Wide = decltype(Op::of(T{}, T{}, 0));
  t.r[i.d] =
      to_slot(Op::of(from_slot<T>(t.r[i.a]), from_slot<T>(t.r[i.b]), from_slot<Wide>(t.r[i.c])));
}

// Fields: a, and two .u32 operands b and c.
template <class Op, class T>
void run_field(Thread& t, const Instruction& i) {
  t.r[i.d] = to_slot(
      Op::of(from_slot<T>(t.r[i.a]), static_cast<u32>(t.r[i.b]), static_cast<u32>(t.r[i.c])));
}

#define PTX_SELECT(name, runner)                                                  \
  template <class Op, class... Ts>                                                \
  Run name##_of(Type type, Types<Ts...>) {                                        \
    Run run = nullptr;                                                            \
    ((holds<Ts>(type) ? static_cast<void>(run = &runner<Op, Ts>) : void()), ...); \
    return run;                                                                   \
  }                                                                               \
  template <class Op, class List>                                                 \
  Run name(const Form& form, Instruction&) {                                      \
    return name##_of<Op>(form.type, List{});                                      \
  }

PTX_SELECT(unary, run_unary)
PTX_SELECT(binary, run_binary)
PTX_SELECT(shift, run_shift)
PTX_SELECT(ternary, run_ternary)
PTX_SELECT(wide_ternary, run_wide_ternary)
PTX_SELECT(field, run_field)
#undef PTX_SELECT

}  // namespace ptx
