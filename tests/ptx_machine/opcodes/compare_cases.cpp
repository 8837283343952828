// setp and selp: every comparison on ordered values, on NaN and on signed zeros.
#include "tests/ptx_machine/opcodes/harness.hpp"

namespace ptx::opcodes {
namespace {

// Results for: less, equal, greater, -0 against +0, NaN on the left, NaN on both sides.
struct RealCompare {
  const char* name;
  std::array<u64, 6> want;
};
constexpr RealCompare kReal[] = {
    {"eq", {0, 1, 0, 1, 0, 0}},  {"ne", {1, 0, 1, 0, 0, 0}},  {"lt", {1, 0, 0, 0, 0, 0}},
    {"le", {1, 1, 0, 1, 0, 0}},  {"gt", {0, 0, 1, 0, 0, 0}},  {"ge", {0, 1, 1, 1, 0, 0}},
    {"equ", {0, 1, 0, 1, 1, 1}}, {"neu", {1, 0, 1, 0, 1, 1}}, {"ltu", {1, 0, 0, 0, 1, 1}},
    {"leu", {1, 1, 0, 1, 1, 1}}, {"gtu", {0, 0, 1, 0, 1, 1}}, {"geu", {0, 1, 1, 1, 1, 1}},
    {"num", {1, 1, 1, 1, 0, 0}}, {"nan", {0, 0, 0, 0, 1, 1}}};

std::vector<Case> reals() {
  std::vector<Case> all;
  for (const RealCompare& c : kReal) {
    std::string text = std::string("setp.") + c.name;
    auto rows = [&](auto bits, auto one, auto zero, auto nan) {
      std::vector<Case::Row> list;
      decltype(one) a[] = {one, one, 2 * one, -zero, nan, nan};
      decltype(one) b[] = {2 * one, one, one, zero, one, nan};
      for (std::size_t k = 0; k < 6; ++k) list.push_back({{bits(a[k]), bits(b[k])}, c.want[k]});
      return list;
    };
    all.push_back({text + ".f32 %d, %a, %b;", {"f32", "f32"}, "pred", rows(f, 1.0f, 0.0f, kNan)});
    all.push_back({text + ".f64 %d, %a, %b;", {"f64", "f64"}, "pred", rows(d, 1.0, 0.0, kNanD)});
  }
  return all;
}

// Results for: 1 against all ones, equal, all ones against 1.
std::vector<Case> integers() {
  struct {
    const char* name;
    std::array<u64, 3> as_unsigned, as_signed;
  } list[] = {{"eq", {0, 1, 0}, {0, 1, 0}}, {"ne", {1, 0, 1}, {1, 0, 1}},
              {"lt", {1, 0, 0}, {0, 0, 1}}, {"le", {1, 1, 0}, {0, 1, 1}},
              {"gt", {0, 0, 1}, {1, 0, 0}}, {"ge", {0, 1, 1}, {1, 1, 0}}};
  std::vector<Case> all;
  for (const auto& c : list) {
    for (const char* width : {"16", "32", "64"}) {
      u64 ones = ~u64{0} >> (64 - std::stoi(width));
      for (bool is_signed : {false, true}) {
        const auto& w = is_signed ? c.as_signed : c.as_unsigned;
        std::string type = std::string(is_signed ? "s" : "u") + width;
        all.push_back({std::string("setp.") + c.name + "." + type + " %d, %a, %b;",
                       {type, type},
                       "pred",
                       {{{1, ones}, w[0]}, {{5, 5}, w[1]}, {{ones, 1}, w[2]}}});
      }
    }
  }
  for (const char* type : {"b16", "b32", "b64"}) {
    all.push_back({std::string("setp.eq.") + type + " %d, %a, %b;",
                   {type, type},
                   "pred",
                   {{{7, 7}, 1}, {{7, 8}, 0}}});
    all.push_back({std::string("setp.ne.") + type + " %d, %a, %b;",
                   {type, type},
                   "pred",
                   {{{7, 7}, 0}, {{7, 8}, 1}}});
  }
  return all;
}

std::vector<Case> combined() {
  return {
      {"setp.lt.and.s32 %d, %a, %b, %c;",
       {"s32", "s32", "pred"},
       "pred",
       {{{1, 2, 1}, 1}, {{1, 2, 0}, 0}, {{2, 1, 1}, 0}}},
      {"setp.lt.or.s32 %d, %a, %b, !%c;",
       {"s32", "s32", "pred"},
       "pred",
       {{{2, 1, 1}, 0}, {{2, 1, 0}, 1}, {{1, 2, 1}, 1}}},
      {"setp.eq.xor.u32 %d, %a, %b, %c;",
       {"u32", "u32", "pred"},
       "pred",
       {{{1, 1, 1}, 0}, {{1, 1, 0}, 1}, {{1, 2, 1}, 1}}},
      {"setp.eq.and.b32 %d, %a, %b, %c;",
       {"b32", "b32", "pred"},
       "pred",
       {{{1, 1, 1}, 1}, {{1, 1, 0}, 0}}},
      {"setp.geu.or.f32 %d, %a, %b, %c;",
       {"f32", "f32", "pred"},
       "pred",
       {{{f(kNan), f(1), 0}, 1}, {{f(0), f(1), 0}, 0}, {{f(0), f(1), 1}, 1}}},
      // the second destination gets the same for the comparison's negation
      {"setp.gt.and.f32 %q0|%d, %a, %b, %c;",
       {"f32", "f32", "pred"},
       "pred",
       {{{f(1), f(2), 1}, 1}, {{f(1), f(2), 0}, 0}, {{f(2), f(1), 1}, 0}, {{f(kNan), f(1), 1}, 1}}},
      {"setp.gt.u32 %q0|%d, %a, %b;", {"u32", "u32"}, "pred", {{{1, 2}, 1}, {{2, 1}, 0}}},
      {"setp.lt.u32 _|%d, %a, %b;", {"u32", "u32"}, "pred", {{{1, 2}, 0}, {{2, 1}, 1}}},
  };
}

std::vector<Case> selections() {
  std::vector<Case> all;
  for (const char* type :
       {"b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"}) {
    std::string text = std::string("selp.") + type + " %d, %a, %b, ";
    all.push_back(
        {text + "%c;", {type, type, "pred"}, type, {{{11, 22, 1}, 11}, {{11, 22, 0}, 22}}});
    all.push_back(
        {text + "!%c;", {type, type, "pred"}, type, {{{11, 22, 1}, 22}, {{11, 22, 0}, 11}}});
  }
  return all;
}

}  // namespace

std::vector<Case> compare_cases() {
  std::vector<Case> all;
  for (auto part : {reals(), integers(), combined(), selections()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace ptx::opcodes
