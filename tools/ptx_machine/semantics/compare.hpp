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

template <Compare C, class T>
void run_setp(Thread& t, const Instruction& i) {
  bool p = compare<C>(from_slot<T>(t.r[i.a]), from_slot<T>(t.r[i.b]));
  bool q = !p;
  if (i.mode != 0) {
    bool c = ((t.r[i.c] & 1) != 0) != i.negate;
    switch (static_cast<Combine>(i.mode)) {
      case Combine::with_and:
        p = p && c;
        q = q && c;
        break;
      case Combine::with_or:
        p = p || c;
        q = q || c;
        break;
      case Combine::with_xor:
        p = p != c;
        q = q != c;
        break;
      case Combine::none:
        break;
    }
  }
  if (i.d != kNoSlot) t.r[i.d] = p ? 1 : 0;
  if (i.p != kNoSlot) t.r[i.p] = q ? 1 : 0;
}

template <class T>
void run_selp(Thread& t, const Instruction& i) {
  t.r[i.d] = to_slot(from_slot<T>(t.r[((t.r[i.c] & 1) != 0) != i.negate ? i.a : i.b]));
}

template <class T, std::size_t... C>
Run setp_run(std::string_view name, std::index_sequence<C...>) {
  Run run = nullptr;
  ((kCompareNames[C] == name ? static_cast<void>(run = &run_setp<static_cast<Compare>(C), T>)
                             : void()),
   ...);
  return run;
}

template <class... Ts>
Run setp_of(const Form& form, Types<Ts...>) {
  Run run = nullptr;
  constexpr auto kAll = std::make_index_sequence<kCompareNames.size()>{};
  ((holds<Ts>(form.type) ? static_cast<void>(run = setp_run<Ts>(form.chosen[0], kAll)) : void()),
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
  return setp_of(form, List{});
}

template <class... Ts>
Run selp_of(Type type, Types<Ts...>) {
  Run run = nullptr;
  ((holds<Ts>(type) ? static_cast<void>(run = &run_selp<Ts>) : void()), ...);
  return run;
}

inline Run selp(const Form& form, Instruction&) {
  return selp_of(form.type, Types<u16, u32, u64, s16, s32, s64, f32, f64>{});
}

}  // namespace ptx
