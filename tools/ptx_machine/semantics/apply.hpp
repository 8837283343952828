// Turns a function of values into a semantic function of registers, for each type in a list.
#pragma once

#include "tools/ptx_machine/form.hpp"
#include "tools/ptx_machine/lanes.hpp"

namespace ptx {

template <class... Ts>
struct Types {};

using Integers = Types<u16, u32, u64, s16, s32, s64>;
using Bits = Types<u16, u32, u64>;
using Reals = Types<f32, f64>;

// True if T holds the PTX type; .b types are held unsigned.
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

// Single-precision operations drop a NaN's payload and return this NaN.
inline constexpr u32 kNan32 = 0x7FFF'FFFF;
// The NaN that a double-precision operation makes of numbers. For NaN operands, the first one's
// payload is kept.
inline constexpr u64 kNan64 = 0xFFF8'0000'0000'0000;
inline constexpr u64 kQuiet64 = 0x0008'0000'0000'0000;

// The result of an operation, with this machine's NaN for any NaN. `operands` are those whose
// payload the ISA passes on.
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
u64 unary_slot(u64 a) {
  return to_slot(Op::of(from_slot<T>(a)));
}
template <class Op, class T>
u64 binary_slot(u64 a, u64 b) {
  return to_slot(Op::of(from_slot<T>(a), from_slot<T>(b)));
}
// The second operand of a shift is a .u32 whatever the type.
template <class Op, class T>
u64 shift_slot(u64 a, u64 b) {
  return to_slot(Op::of(from_slot<T>(a), static_cast<u32>(b)));
}
template <class Op, class T>
u64 ternary_slot(u64 a, u64 b, u64 c) {
  return to_slot(Op::of(from_slot<T>(a), from_slot<T>(b), from_slot<T>(c)));
}
// mad.wide: the third operand has the result's width.
template <class Op, class T>
u64 wide_ternary_slot(u64 a, u64 b, u64 c) {
  using Wide = decltype(Op::of(T{}, T{}, 0));
  return to_slot(Op::of(from_slot<T>(a), from_slot<T>(b), from_slot<Wide>(c)));
}
// Fields: a, and two .u32 operands b and c.
template <class Op, class T>
u64 field_slot(u64 a, u64 b, u64 c) {
  return to_slot(Op::of(from_slot<T>(a), static_cast<u32>(b), static_cast<u32>(c)));
}

// A function of slots as a semantic function, for one thread and for a warp's lanes.
template <auto F>
inline constexpr u32 kOperands = std::is_invocable_v<decltype(F), u64>             ? 1
                                 : std::is_invocable_v<decltype(F), u64, u64>      ? 2
                                 : std::is_invocable_v<decltype(F), u64, u64, u64> ? 3
                                                                                   : 4;

template <auto F>
void run_thread(Thread& t, const Instruction& i) {
  if constexpr (kOperands<F> == 1) {
    t.r[i.d] = F(t.r[i.a]);
  } else if constexpr (kOperands<F> == 2) {
    t.r[i.d] = F(t.r[i.a], t.r[i.b]);
  } else if constexpr (kOperands<F> == 3) {
    t.r[i.d] = F(t.r[i.a], t.r[i.b], t.r[i.c]);
  } else {
    t.r[i.d] = F(t.r[i.a], t.r[i.b], t.r[i.c], t.r[i.e]);
  }
}

// The type of the values in a row, for each type of operands.
template <class T>
using RowOf = std::conditional_t<sizeof(T) == 8, u64, u32>;

template <auto F, class D, class A, class B, class C, class E>
PTX_EACH_LEVEL bool run_lanes(Lanes& lanes, const Instruction& i) {
  D* d = lanes.row<D>(i.d);
  const A* a = lanes.row<A>(i.a);
  if constexpr (kOperands<F> == 1) {
    PTX_SET_LANES(D, d, lanes, F(a[k]))
  } else if constexpr (kOperands<F> == 2) {
    const B* b = lanes.row<B>(i.b);
    PTX_SET_LANES(D, d, lanes, F(a[k], b[k]))
  } else if constexpr (kOperands<F> == 3) {
    const B* b = lanes.row<B>(i.b);
    const C* c = lanes.row<C>(i.c);
    PTX_SET_LANES(D, d, lanes, F(a[k], b[k], c[k]))
  } else {
    const B* b = lanes.row<B>(i.b);
    const C* c = lanes.row<C>(i.c);
    const E* e = lanes.row<E>(i.e);
    PTX_SET_LANES(D, d, lanes, F(a[k], b[k], c[k], e[k]))
  }
  return true;
}

// The types of the result and of the operands determine how wide the slots are.
template <auto F, class D, class A, class B = A, class C = A, class E = A>
Run run_of(Instruction& i) {
  i.run_lanes = &run_lanes<F, RowOf<D>, RowOf<A>, RowOf<B>, RowOf<C>, RowOf<E>>;
  i.lane_bytes = {sizeof(RowOf<D>), sizeof(RowOf<A>), sizeof(RowOf<B>), sizeof(RowOf<C>),
                  sizeof(RowOf<E>)};
  return &run_thread<F>;
}

template <class Op, class T>
Run unary_run(Instruction& i) {
  return run_of<&unary_slot<Op, T>, decltype(Op::of(T{})), T>(i);
}
template <class Op, class T>
Run binary_run(Instruction& i) {
  return run_of<&binary_slot<Op, T>, decltype(Op::of(T{}, T{})), T>(i);
}
template <class Op, class T>
Run shift_run(Instruction& i) {
  return run_of<&shift_slot<Op, T>, T, T, u32>(i);
}
template <class Op, class T>
Run ternary_run(Instruction& i) {
  return run_of<&ternary_slot<Op, T>, T, T>(i);
}
template <class Op, class T>
Run wide_ternary_run(Instruction& i) {
  using Wide = decltype(Op::of(T{}, T{}, 0));
  return run_of<&wide_ternary_slot<Op, T>, Wide, T, T, Wide>(i);
}
template <class Op, class T>
Run field_run(Instruction& i) {
  return run_of<&field_slot<Op, T>, T, T, u32, u32>(i);
}
#define PTX_SELECT(name, function)                                                    \
  template <class Op, class... Ts>                                                    \
  Run name##_of(Type type, Instruction& i, Types<Ts...>) {                            \
    Run run = nullptr;                                                                \
    ((holds<Ts>(type) ? static_cast<void>(run = function<Op, Ts>(i)) : void()), ...); \
    return run;                                                                       \
  }                                                                                   \
  template <class Op, class List>                                                     \
  Run name(const Form& form, Instruction& i) {                                        \
    return name##_of<Op>(form.type, i, List{});                                       \
  }

PTX_SELECT(unary, unary_run)
PTX_SELECT(binary, binary_run)
PTX_SELECT(shift, shift_run)
PTX_SELECT(ternary, ternary_run)
PTX_SELECT(wide_ternary, wide_ternary_run)
PTX_SELECT(field, field_run)
#undef PTX_SELECT

}  // namespace ptx
