// setp, selp: comparisons, ordered and unordered, and selection.
#pragma once

#include "tools/ptx_machine/semantics/apply.hpp"

namespace ptx {

enum class Compare : u8 { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan, count };
inline constexpr std::array<std::string_view, 14> kCompareNames = {
    "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

// The plain six are false where an operand is NaN (ne, too), the ones with u are true.
template <Compare C, class T>
bool compare(T a, T b) {
  bool unordered = a != a || b != b;
  switch (C) {
    case Compare::eq:
      return a == b;
    case Compare::ne:
      return !unordered && a != b;
    case Compare::lt:
      return a < b;
    case Compare::le:
      return a <= b;
    case Compare::gt:
      return a > b;
    case Compare::ge:
      return a >= b;
    case Compare::equ:
      return unordered || a == b;
    case Compare::neu:
      return unordered || a != b;
    case Compare::ltu:
      return unordered || a < b;
    case Compare::leu:
      return unordered || a <= b;
    case Compare::gtu:
      return unordered || a > b;
    case Compare::geu:
      return unordered || a >= b;
    case Compare::num:
      return !unordered;
    case Compare::nan:
      return unordered;
    case Compare::count:
      break;
  }
  return false;
}

// mode: what setp combines its result with; the second destination gets it for the negation.
enum class Combine : u8 { none, with_and, with_or, with_xor };

// One lane's result p and its negation q, where the third source is c.
struct Predicates {
  bool p, q;
};
inline Predicates combined(Combine how, bool p, bool c) {
  switch (how) {
    case Combine::with_and:
      return {p && c, !p && c};
    case Combine::with_or:
      return {p || c, !p || c};
    case Combine::with_xor:
      return {p != c, p == c};
    case Combine::none:
      break;
  }
  return {p, !p};
}

template <Compare C, class T>
void run_setp(Thread& t, const Instruction& i) {
  bool p = compare<C>(from_slot<T>(t.r[i.a]), from_slot<T>(t.r[i.b]));
  bool c = i.c != kNoSlot && ((t.r[i.c] & 1) != 0) != i.negate;
  Predicates both = combined(static_cast<Combine>(i.mode), p, c);
  if (i.d != kNoSlot) t.r[i.d] = both.p ? 1 : 0;
  if (i.p != kNoSlot) t.r[i.p] = both.q ? 1 : 0;
}

template <Compare C, class T>
u64 compare_slot(u64 a, u64 b) {
  return compare<C>(from_slot<T>(a), from_slot<T>(b)) ? 1 : 0;
}

template <class T>
u64 select_slot(u64 a, u64 b, u64 c) {
  return to_slot(from_slot<T>((c & 1) != 0 ? a : b));
}
template <class T>
u64 select_unless_slot(u64 a, u64 b, u64 c) {
  return to_slot(from_slot<T>((c & 1) != 0 ? b : a));
}

template <Compare C, class T>
Run setp_of_compare(Instruction& i) {
  // With one destination and nothing to combine it is a function of two slots.
  if (i.mode == 0 && i.d != kNoSlot && i.p == kNoSlot) run_of<&compare_slot<C, T>, bool, T>(i);
  return &run_setp<C, T>;
}

template <class T, std::size_t... C>
Run setp_run(std::string_view name, Instruction& i, std::index_sequence<C...>) {
  Run run = nullptr;
  ((kCompareNames[C] == name
        ? static_cast<void>(run = setp_of_compare<static_cast<Compare>(C), T>(i))
        : void()),
   ...);
  return run;
}

template <class... Ts>
Run setp_of(const Form& form, Instruction& i, Types<Ts...>) {
  Run run = nullptr;
  constexpr auto kAll = std::make_index_sequence<kCompareNames.size()>{};
  ((holds<Ts>(form.type) ? static_cast<void>(run = setp_run<Ts>(form.chosen[0], i, kAll)) : void()),
   ...);
  return run;
}

// setp.CmpOp{.BoolOp}.type: the row lists which CmpOps a type has.
template <class List>
Run setp(const Form& form, Instruction& i) {
  i.mode = static_cast<u8>(form.has("and")   ? Combine::with_and
                           : form.has("or")  ? Combine::with_or
                           : form.has("xor") ? Combine::with_xor
                                             : Combine::none);
  return setp_of(form, i, List{});
}

template <class... Ts>
Run selp_of(Type type, Instruction& i, Types<Ts...>) {
  Run run = nullptr;
  auto chosen = [&]<class T>(T) {
    return i.negate ? run_of<&select_unless_slot<T>, T, T, T, bool>(i)
                    : run_of<&select_slot<T>, T, T, T, bool>(i);
  };
  ((holds<Ts>(type) ? static_cast<void>(run = chosen(Ts{})) : void()), ...);
  return run;
}

inline Run selp(const Form& form, Instruction& i) {
  return selp_of(form.type, i, Types<u16, u32, u64, s16, s32, s64, f32, f64>{});
}

}  // namespace ptx
