// Floating point, worked by hand: NaN, infinities, signed zeros, subnormals, ties, overflow, one
// rounding.
#include <cmath>

#include "tests/ptx_machine/opcodes/harness.hpp"

namespace ptx::opcodes {
namespace {

Case two(const std::string& opcode, std::vector<Case::Row> rows) {
  return {opcode + ".f32 %d, %a, %b;", {"f32", "f32"}, "f32", std::move(rows)};
}
Case two_wide(const std::string& opcode, std::vector<Case::Row> rows) {
  return {opcode + ".f64 %d, %a, %b;", {"f64", "f64"}, "f64", std::move(rows), true};
}

constexpr float kEps = 0x1p-24f;  // half an ulp of 1
constexpr double kEpsD = 0x1p-53;

std::vector<Case> sums() {
  return {
      two("add.rn", {{{f(1), f(kEps)}, f(1)},                        // tie to even: down
                     {{f(1 + 0x1p-23f), f(kEps)}, f(1 + 0x1p-22f)},  // tie to even: up
                     {{f(1), f(kEps + 0x1p-47f)}, f(1 + 0x1p-23f)},  // above the tie
                     {{f(kMax), f(kMax)}, f(kInf)},
                     {{f(kMax), f(0x1p103f)}, f(kInf)},         // half an ulp above the largest
                     {{f(kMax), f(0x1.fffffep102f)}, f(kMax)},  // just below it
                     {{f(kInf), f(-kInf)}, kNanF},
                     {{f(kNan), f(1)}, kNanF},
                     {{0xFFC01234, f(1)}, kNanF},  // payload and sign are lost
                     {{f(0.0f), f(-0.0f)}, f(0.0f)},
                     {{f(-0.0f), f(-0.0f)}, f(-0.0f)},
                     {{f(1), f(-1)}, f(0.0f)},
                     {{f(kTiny), f(kTiny)}, f(2 * kTiny)},
                     {{f(0x1p-126f), f(-kTiny)}, 0x007FFFFF}}),  // becomes subnormal
      {"add.f32 %d, %a, 0f3F800000;", {"f32"}, "f32", {{{f(2)}, f(3)}}},
      two_wide("add.rn", {{{d(1), d(kEpsD)}, d(1)},
                          {{d(1 + 0x1p-52), d(kEpsD)}, d(1 + 0x1p-51)},
                          {{d(kMaxD), d(kMaxD)}, d(kInfD)},
                          {{d(kInfD), d(-kInfD)}, d(kNanD)},
                          {{d(-0.0), d(-0.0)}, d(-0.0)},
                          {{d(kTinyD), d(kTinyD)}, d(2 * kTinyD)}}),
      two_wide("add", {{{d(2), d(3)}, d(5)}}),
      two("sub.rn", {{{f(1), f(0x1p-25f)}, f(1)},  // tie below 1
                     {{f(0.0f), f(0.0f)}, f(0.0f)},
                     {{f(-0.0f), f(0.0f)}, f(-0.0f)},
                     {{f(kInf), f(kInf)}, kNanF},
                     {{f(0x1p-126f), f(0x1.8p-127f)}, 0x00200000}}),
      two_wide("sub.rn", {{{d(1), d(0x1p-54)}, d(1)}, {{d(kInfD), d(kInfD)}, d(kNanD)}}),
      two("sub", {{{f(5), f(3)}, f(2)}}),
  };
}

// A payload goes on, quiet; what an operation makes itself and what fma hands on is one NaN.
std::vector<Case> nan_payloads() {
  return {
      {"add.rn.f64 %d, %a, %b;",
       {"f64", "f64"},
       "f64",
       {{{0x7FF0000000000007, d(1)}, 0x7FF8000000000007},
        {{d(1), 0xFFF8000000000009}, 0xFFF8000000000009},
        {{0x7FF8000000000001, 0x7FF8000000000002}, 0x7FF8000000000001},
        {{d(kInfD), d(-kInfD)}, 0xFFF8000000000000}}},
      {"sqrt.rn.f64 %d, %a;",
       {"f64"},
       "f64",
       {{{0x7FF8000000000005}, 0x7FF8000000000005}, {{d(-1)}, 0xFFF8000000000000}}},
      {"fma.rn.f64 %d, %a, %b, %c;",
       {"f64", "f64", "f64"},
       "f64",
       {{{0x7FF8000000000005, d(1), d(1)}, 0xFFF8000000000000}}},
  };
}

std::vector<Case> products() {
  float third = 1.0f / 3.0f;
  return {
      two("mul.rn", {{{f(kMax), f(2)}, f(kInf)},
                     {{f(0), f(kInf)}, kNanF},
                     {{f(-0.0f), f(3)}, f(-0.0f)},
                     {{f(-2), f(0.0f)}, f(-0.0f)},
                     {{f(kTiny), f(0.5f)}, f(0.0f)},           // tie to even at zero
                     {{f(3 * kTiny), f(0.5f)}, f(2 * kTiny)},  // tie to even
                     {{f(kTiny), f(0x1.000002p-1f)}, f(kTiny)},
                     {{f(1 + 0x1p-12f), f(1 + 0x1p-12f)}, f(1 + 0x1p-11f)},  // 2^-24 is a tie
                     {{f(-kInf), f(-kInf)}, f(kInf)},
                     {{f(kNan), f(0)}, kNanF}}),
      two_wide("mul.rn", {{{d(kMaxD), d(2)}, d(kInfD)},
                          {{d(3 * kTinyD), d(0.5)}, d(2 * kTinyD)},
                          {{d(0), d(kInfD)}, d(kNanD)}}),
      two("mul", {{{f(3), f(5)}, f(15)}}),
      {"fma.rn.f32 %d, %a, %b, %c;",
       {"f32", "f32", "f32"},
       "f32",
       {// a*b = 1 + 2^-11 + 2^-24: rounded on its own the last term is lost
        {{f(1 + 0x1p-12f), f(1 + 0x1p-12f), f(-1 - 0x1p-11f)}, f(0x1p-24f)},
        // a tie that a tiny addend breaks, far beyond any wider format
        {{f(1 + 0x1p-12f), f(1 + 0x1p-12f), f(0x1p-140f)}, f(1 + 0x1p-11f + 0x1p-23f)},
        {{f(1 + 0x1p-12f), f(1 + 0x1p-12f), f(-0x1p-140f)}, f(1 + 0x1p-11f)},
        {{f(kMax), f(2), f(-kInf)}, f(-kInf)},
        {{f(kMax), f(2), f(-kMax)}, f(kMax)},
        {{f(0), f(kInf), f(1)}, kNanF},
        {{f(kInf), f(1), f(-kInf)}, kNanF},
        {{f(-0.0f), f(1), f(-0.0f)}, f(-0.0f)},
        {{f(1), f(-1), f(1)}, f(0.0f)},
        {{f(kTiny), f(0.5f), f(kTiny)}, f(2 * kTiny)}}},
      {"fma.rn.f64 %d, %a, %b, %c;",
       {"f64", "f64", "f64"},
       "f64",
       {{{d(1 + 0x1p-27), d(1 + 0x1p-27), d(-1 - 0x1p-26)}, d(0x1p-54)},
        {{d(1 + 0x1p-26), d(1 + 0x1p-27), d(0x1p-1000)}, d(1 + 0x1.8p-26 + 0x1p-52)},
        {{d(1 + 0x1p-26), d(1 + 0x1p-27), d(-0x1p-1000)}, d(1 + 0x1.8p-26)},
        {{d(0), d(kInfD), d(1)}, d(kNanD)}},
       true},
      {"mad.rn.f32 %d, %a, %b, %c;",
       {"f32", "f32", "f32"},
       "f32",
       {{{f(1 + 0x1p-12f), f(1 + 0x1p-12f), f(-1 - 0x1p-11f)}, f(0x1p-24f)}}},
      {"mad.rn.f64 %d, %a, %b, %c;", {"f64", "f64", "f64"}, "f64", {{{d(2), d(3), d(4)}, d(10)}}},
      two("div.rn", {{{f(1), f(3)}, 0x3EAAAAAB},
                     {{f(1), f(0.0f)}, f(kInf)},
                     {{f(1), f(-0.0f)}, f(-kInf)},
                     {{f(0), f(0)}, kNanF},
                     {{f(kInf), f(kInf)}, kNanF},
                     {{f(1), f(kInf)}, f(0.0f)},
                     {{f(kTiny), f(2)}, f(0.0f)},
                     {{f(kMax), f(0.5f)}, f(kInf)},
                     {{f(2), f(third * 2)}, f(3)},
                     {{f(0x1p-126f), f(3)}, 0x002AAAAB}}),
      two_wide("div.rn", {{{d(1), d(3)}, 0x3FD5555555555555},
                          {{d(2), d(3)}, 0x3FE5555555555555},
                          {{d(1), d(-0.0)}, d(-kInfD)},
                          {{d(0), d(0)}, d(kNanD)},
                          {{d(0x1p-1022), d(3)}, 0x0005555555555555}}),
      {"rcp.rn.f32 %d, %a;",
       {"f32"},
       "f32",
       {{{f(3)}, 0x3EAAAAAB},
        {{f(0.0f)}, f(kInf)},
        {{f(-0.0f)}, f(-kInf)},
        {{f(-kInf)}, f(-0.0f)},
        {{f(kMax)}, 0x00200000},
        {{f(kTiny)}, f(kInf)},
        {{f(kNan)}, kNanF}}},
      {"rcp.rn.f64 %d, %a;",
       {"f64"},
       "f64",
       {{{d(3)}, 0x3FD5555555555555}, {{d(-0.0)}, d(-kInfD)}, {{d(10)}, 0x3FB999999999999A}}},
      {"sqrt.rn.f32 %d, %a;",
       {"f32"},
       "f32",
       {{{f(2)}, 0x3FB504F3},
        {{f(-0.0f)}, f(-0.0f)},
        {{f(-1)}, kNanF},
        {{f(kInf)}, f(kInf)},
        {{f(0x1p-148f)}, f(0x1p-74f)},
        {{f(9)}, f(3)},
        {{f(3)}, 0x3FDDB3D7}}},
      {"sqrt.rn.f64 %d, %a;",
       {"f64"},
       "f64",
       {{{d(2)}, 0x3FF6A09E667F3BCD},
        {{d(-0.0)}, d(-0.0)},
        {{d(-1)}, d(kNanD)},
        {{d(kTinyD)}, d(0x1p-537)}},
       true},
  };
}

std::vector<Case> signs_and_orders() {
  return {
      {"abs.f32 %d, %a;",
       {"f32"},
       "f32",
       {{{f(-0.0f)}, f(0.0f)}, {{f(-kInf)}, f(kInf)}, {{f(-3)}, f(3)}}},
      {"abs.f64 %d, %a;", {"f64"}, "f64", {{{d(-0.0)}, d(0.0)}, {{d(-kTinyD)}, d(kTinyD)}}},
      {"neg.f32 %d, %a;", {"f32"}, "f32", {{{f(0.0f)}, f(-0.0f)}, {{f(kInf)}, f(-kInf)}}},
      {"neg.f64 %d, %a;", {"f64"}, "f64", {{{d(0.0)}, d(-0.0)}}},
      // the sign of a on the magnitude of b
      {"copysign.f32 %d, %a, %b;",
       {"f32", "f32"},
       "f32",
       {{{f(-0.0f), f(3)}, f(-3)}, {{f(1), f(-3)}, f(3)}}},
      {"copysign.f64 %d, %a, %b;", {"f64", "f64"}, "f64", {{{d(-1), d(kInfD)}, d(-kInfD)}}},
      two("min", {{{f(0.0f), f(-0.0f)}, f(-0.0f)},
                  {{f(-0.0f), f(0.0f)}, f(-0.0f)},
                  {{f(kNan), f(2)}, f(2)},
                  {{f(2), f(kNan)}, f(2)},
                  {{f(kNan), 0xFFC00000}, kNanF},
                  {{f(-kInf), f(1)}, f(-kInf)}}),
      two("max", {{{f(0.0f), f(-0.0f)}, f(0.0f)},
                  {{f(-0.0f), f(0.0f)}, f(0.0f)},
                  {{f(kNan), f(2)}, f(2)},
                  {{f(2), f(kNan)}, f(2)},
                  {{f(kNan), f(kNan)}, kNanF},
                  {{f(kInf), f(1)}, f(kInf)}}),
      two("min.NaN",
          {{{f(kNan), f(2)}, kNanF}, {{f(2), 0xFFC00000}, kNanF}, {{f(0.0f), f(-0.0f)}, f(-0.0f)}}),
      two("max.NaN",
          {{{f(kNan), f(2)}, kNanF}, {{f(2), f(3)}, f(3)}, {{f(-0.0f), f(0.0f)}, f(0.0f)}}),
      two_wide("min",
               {{{d(0.0), d(-0.0)}, d(-0.0)}, {{d(kNanD), d(2)}, d(2)}, {{d(2), d(kNanD)}, d(2)}}),
      two_wide("max",
               {{{d(0.0), d(-0.0)}, d(0.0)}, {{d(kNanD), d(2)}, d(2)}, {{d(3), d(2)}, d(3)}}),
  };
}

// testp.<property>: zero, subnormal, normal, infinite, NaN.
std::vector<Case> properties() {
  std::vector<Case> all;
  struct {
    const char* name;
    std::array<u64, 5> want;
  } list[] = {{"finite", {1, 1, 1, 0, 0}}, {"infinite", {0, 0, 0, 1, 0}},
              {"number", {1, 1, 1, 1, 0}}, {"notanumber", {0, 0, 0, 0, 1}},
              {"normal", {0, 0, 1, 0, 0}}, {"subnormal", {0, 1, 0, 0, 0}}};
  for (const auto& p : list) {
    std::string text = std::string("testp.") + p.name;
    const auto& w = p.want;
    all.push_back({text + ".f32 %d, %a;",
                   {"f32"},
                   "pred",
                   {{{f(-0.0f)}, w[0]},
                    {{f(-kTiny)}, w[1]},
                    {{f(0x1p-126f)}, w[2]},
                    {{f(-kInf)}, w[3]},
                    {{f(kNan)}, w[4]}}});
    all.push_back({text + ".f64 %d, %a;",
                   {"f64"},
                   "pred",
                   {{{d(0)}, w[0]},
                    {{d(kTinyD)}, w[1]},
                    {{d(-1)}, w[2]},
                    {{d(kInfD)}, w[3]},
                    {{d(kNanD)}, w[4]}}});
  }
  return all;
}

}  // namespace

std::vector<Case> real_cases() {
  std::vector<Case> all;
  for (auto part : {sums(), nan_payloads(), products(), signs_and_orders(), properties()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace ptx::opcodes
