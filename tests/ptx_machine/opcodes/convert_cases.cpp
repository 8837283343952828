// cvt, worked by hand: extension, saturation, the four roundings, NaN, the 16-bit formats.
#include "tests/ptx_machine/opcodes/harness.hpp"

namespace ptx::opcodes {
namespace {

constexpr u64 kM1 = 0xFFFFFFFF;
constexpr u64 kM1L = 0xFFFFFFFFFFFFFFFF;

Case cvt(const std::string& modifiers, const std::string& to, const std::string& from,
         std::vector<Case::Row> rows, bool any_nan = false) {
  // A register is at least 16 bits wide; .u8 and .s8 live in wider ones.
  auto reg = [](const std::string& type) {
    return type.ends_with("8") ? std::string("b32") : type;
  };
  return {"cvt" + modifiers + "." + to + "." + from + " %d, %a;",
          {reg(from)},
          reg(to),
          std::move(rows),
          any_nan};
}

std::vector<Case> between_integers() {
  return {
      cvt("", "u64", "u32", {{{kM1}, kM1}}),
      cvt("", "s64", "s32", {{{kM1}, kM1L}, {{0x7FFFFFFF}, 0x7FFFFFFF}}),
      cvt("", "u32", "u64", {{{0x1234567890}, 0x34567890}}),
      cvt("", "s32", "s64", {{{0x1FFFFFFFF}, kM1}}),
      cvt("", "u16", "u32", {{{0x12345}, 0x2345}}),
      cvt("", "u32", "u16", {{{0xFFFF}, 0xFFFF}}),
      cvt("", "s32", "s16", {{{0xFFFF}, kM1}, {{0x7FFF}, 0x7FFF}}),
      cvt("", "s16", "s32", {{{0xFFFF8000}, 0x8000}}),
      cvt("", "u64", "u16", {{{0x8000}, 0x8000}}),
      cvt("", "s64", "s16", {{{0x8000}, 0xFFFFFFFFFFFF8000}}),
      cvt("", "u32", "s16", {{{0x8000}, 0xFFFF8000}}),
      cvt("", "s32", "s8", {{{0x180}, 0xFFFFFF80}, {{0x17F}, 0x7F}}),
      cvt("", "u32", "u8", {{{0x1FF}, 0xFF}}),
      cvt("", "u8", "u32", {{{0x1FF}, 0xFF}}),
      cvt("", "s8", "s32", {{{0x80}, 0xFFFFFF80}}),
      cvt("", "s64", "u32", {{{kM1}, kM1}}),
      cvt("", "u64", "s32", {{{kM1}, kM1L}}),
  };
}

std::vector<Case> to_real() {
  return {
      cvt(".rn", "f32", "u32",
          {{{0}, f(0)},
           {{0x1000001}, f(0x1p24f)},
           {{0x1000003}, f(0x1000004)},
           {{kM1}, f(0x1p32f)}}),
      cvt(".rn", "f32", "s32",
          {{{kM1}, f(-1)}, {{0x80000000}, f(-0x1p31f)}, {{0xFEFFFFFF}, f(-0x1p24f)}}),
      // 2^40 + 2^16 is a tie, one more is above it, though a double between would hide that
      cvt(".rn", "f32", "u64",
          {{{0x10000010000}, f(0x1p40f)},
           {{0x10000010001}, f(0x1.000002p40f)},
           {{kM1L}, f(0x1p64f)},
           {{0x8000008000000001}, f(0x1.000002p63f)},
           {{0x8000008000000000}, f(0x1p63f)}}),
      cvt(".rn", "f32", "s64", {{{kM1L}, f(-1)}, {{0xFFFFFEFFFFFEFFFF}, f(-0x1.000002p40f)}}),
      cvt(".rn", "f64", "u32", {{{kM1}, d(4294967295.0)}}),
      cvt(".rn", "f64", "s32", {{{0x80000000}, d(-0x1p31)}}),
      cvt(".rn", "f64", "u64",
          {{{0x20000000000001}, d(0x1p53)},
           {{0x20000000000003}, d(0x20000000000004)},
           {{kM1L}, d(0x1p64)}}),
      cvt(".rn", "f64", "s64", {{{u64{1} << 63}, d(-0x1p63)}, {{0xFFDFFFFFFFFFFFFF}, d(-0x1p53)}}),
      cvt(".rn", "f32", "u16", {{{0xFFFF}, f(65535)}}),
      cvt(".rn", "f32", "s16", {{{0xFFFF}, f(-1)}}),
      cvt(".rn", "f32", "u8", {{{0x1FF}, f(255)}}),
      cvt(".rn", "f64", "s8", {{{0x80}, d(-128)}}),
  };
}

std::vector<Case> to_integer() {
  std::vector<Case> all = {
      cvt(".rzi", "s32", "f32",
          {{{f(-2.9f)}, 0xFFFFFFFE},
           {{f(kNan)}, 0},
           {{f(kInf)}, 0x7FFFFFFF},
           {{f(-kInf)}, 0x80000000},
           {{f(0x1p31f)}, 0x7FFFFFFF},
           {{f(-0x1p31f)}, 0x80000000},
           {{f(-0.0f)}, 0},
           {{f(kTiny)}, 0}}),
      cvt(".rzi", "u32", "f32",
          {{{f(-1)}, 0},
           {{f(-0.5f)}, 0},
           {{f(kNan)}, 0},
           {{f(0x1p32f)}, kM1},
           {{f(3.99f)}, 3},
           {{f(0x1.fffffep31f)}, 0xFFFFFF00}}),
      cvt(".rzi", "s64", "f32",
          {{{f(kNan)}, u64{1} << 63}, {{f(kInf)}, 0x7FFFFFFFFFFFFFFF}, {{f(-1.5f)}, kM1L}}),
      cvt(".rzi", "u64", "f32",
          {{{f(kNan)}, u64{1} << 63},
           {{f(-1)}, 0},
           {{f(kInf)}, kM1L},
           {{f(0x1p63f)}, u64{1} << 63}}),
      cvt(".rzi", "s32", "f64",
          {{{d(kNanD)}, 0x80000000},
           {{d(2147483647.9)}, 0x7FFFFFFF},
           {{d(-2147483648.9)}, 0x80000000},
           {{d(1e300)}, 0x7FFFFFFF}}),
      cvt(".rzi", "u32", "f64", {{{d(kNanD)}, 0x80000000}, {{d(4294967295.5)}, kM1}, {{d(-1)}, 0}}),
      cvt(".rzi", "s64", "f64",
          {{{d(kNanD)}, u64{1} << 63},
           {{d(0x1p63)}, 0x7FFFFFFFFFFFFFFF},
           {{d(-0x1p63)}, u64{1} << 63},
           {{d(-3.7)}, 0xFFFFFFFFFFFFFFFD}}),
      cvt(".rzi", "u64", "f64", {{{d(0x1p64)}, kM1L}, {{d(0x1p63)}, u64{1} << 63}, {{d(-0.9)}, 0}}),
      cvt(".rzi", "s16", "f32", {{{f(40000)}, 0x7FFF}, {{f(-40000)}, 0x8000}, {{f(kNan)}, 0}}),
      cvt(".rzi", "u16", "f32", {{{f(70000)}, 0xFFFF}, {{f(-2)}, 0}}),
      cvt(".rzi", "u8", "f32", {{{f(300)}, 0xFF}, {{f(7.5f)}, 7}}),
      cvt(".rzi", "s8", "f32", {{{f(300)}, 0x7F}, {{f(-300)}, 0xFFFFFF80}}),
  };
  struct {
    const char* name;
    std::array<s64, 5> want;  // of 2.5, 3.5, -2.5, 2.4, -2.6
  } roundings[] = {{".rni", {2, 4, -2, 2, -3}},
                   {".rzi", {2, 3, -2, 2, -2}},
                   {".rmi", {2, 3, -3, 2, -3}},
                   {".rpi", {3, 4, -2, 3, -2}}};
  constexpr double kValues[] = {2.5, 3.5, -2.5, 2.4, -2.6};
  for (const auto& r : roundings) {
    std::vector<Case::Row> s32_rows, s64_rows, f32_rows, f64_rows;
    for (std::size_t k = 0; k < 5; ++k) {
      auto single = static_cast<float>(kValues[k]);
      auto want = static_cast<float>(r.want[k]);
      s32_rows.push_back({{f(single)}, static_cast<u32>(r.want[k])});
      s64_rows.push_back({{d(kValues[k])}, static_cast<u64>(r.want[k])});
      f32_rows.push_back({{f(single)}, f(want)});
      f64_rows.push_back({{d(kValues[k])}, d(static_cast<double>(r.want[k]))});
    }
    f32_rows.push_back({{f(-0.0f)}, f(-0.0f)});
    f32_rows.push_back({{f(kInf)}, f(kInf)});
    f32_rows.push_back({{f(kNan)}, kNanF});
    f32_rows.push_back({{f(0x1.000002p23f)}, f(0x1.000002p23f)});
    f64_rows.push_back({{d(-0.0)}, d(-0.0)});
    all.push_back(cvt(r.name, "s32", "f32", s32_rows));
    all.push_back(cvt(r.name, "s64", "f64", s64_rows));
    all.push_back(cvt(r.name, "f32", "f32", f32_rows));
    all.push_back(cvt(r.name, "f64", "f64", f64_rows));
  }
  all.push_back(
      cvt(".rni", "f32", "f32", {{{f(-0.4f)}, f(-0.0f)}, {{f(0.5f)}, f(0.0f)}, {{f(1.5f)}, f(2)}}));
  return all;
}

std::vector<Case> between_reals() {
  return {
      cvt("", "f64", "f32",
          {{{f(kTiny)}, d(0x1p-149)},
           {{f(-0.0f)}, d(-0.0)},
           {{f(kInf)}, d(kInfD)},
           {{f(kNan)}, d(kNanD)}},
          true),
      cvt(".rn", "f32", "f64",
          {{{d(1 + 0x1p-24)}, f(1)},
           {{d(1 + 0x1.8p-23)}, f(1 + 0x1p-22f)},
           {{d(1 + 0x1.0000001p-24)}, f(1 + 0x1p-23f)},
           {{d(kMaxD)}, f(kInf)},
           {{d(0x1.fffffefp127)}, f(kMax)},
           {{d(0x1.ffffffp127)}, f(kInf)},
           {{d(0x1p-150)}, f(0)},
           {{d(0x1.8p-149)}, f(2 * kTiny)},
           {{d(0x1.0000001p-150)}, f(kTiny)},
           {{d(-kTinyD)}, f(-0.0f)},
           {{d(kNanD)}, kNanF}}),
  };
}

std::vector<Case> halves() {
  std::vector<Case::Row> to_f16 = {
      {{f(0.0f)}, 0},
      {{f(-0.0f)}, 0x8000},
      {{f(1)}, 0x3C00},
      {{f(-2)}, 0xC000},
      {{f(65504)}, 0x7BFF},       // the largest
      {{f(65519.996f)}, 0x7BFF},  // just below the tie
      {{f(65520)}, 0x7C00},       // the tie goes to infinity
      {{f(-kInf)}, 0xFC00},
      {{f(kNan)}, 0x7FFF},
      {{0xFFC00000}, 0x7FFF},
      {{f(1 + 0x1p-11f)}, 0x3C00},    // tie to even: down
      {{f(1 + 0x1.8p-10f)}, 0x3C02},  // tie to even: up
      {{f(1 + 0x1.001p-11f)}, 0x3C01},
      {{f(0x1p-14f)}, 0x0400},      // the smallest normal
      {{f(0x1.ff8p-15f)}, 0x03FF},  // the largest subnormal
      {{f(0x1.ffcp-15f)}, 0x0400},  // between them, a tie: to the even one
      {{f(0x1p-24f)}, 1},
      {{f(0x1p-25f)}, 0},
      {{f(0x1.000002p-25f)}, 1},
      {{f(0x1.8p-24f)}, 2},
      {{f(kTiny)}, 0},
      {{f(-kTiny)}, 0x8000}};
  std::vector<Case::Row> to_bf16 = {{{f(1)}, 0x3F80},
                                    {{f(-0.0f)}, 0x8000},
                                    {{f(1 + 0x1p-8f)}, 0x3F80},
                                    {{f(1 + 0x1.8p-7f)}, 0x3F82},
                                    {{f(1 + 0x1.0002p-8f)}, 0x3F81},
                                    {{f(kMax)}, 0x7F80},
                                    {{0x7F7F7FFF}, 0x7F7F},
                                    {{0x7F7F8000}, 0x7F80},
                                    {{f(kInf)}, 0x7F80},
                                    {{f(kNan)}, 0x7FFF},
                                    {{0xFF800001}, 0x7FFF},
                                    {{0x00008000}, 0},
                                    {{0x00008001}, 1},
                                    {{0x00018000}, 2},
                                    {{0x007FFFFF}, 0x0080},
                                    {{f(-kTiny)}, 0x8000}};
  return {
      {"cvt.rn.f16.f32 %d, %a;", {"f32"}, "b16", to_f16},
      {"cvt.rn.bf16.f32 %d, %a;", {"f32"}, "b16", to_bf16},
      {"cvt.f32.f16 %d, %a;",
       {"b16"},
       "f32",
       {{{0x3C00}, f(1)},
        {{0x8000}, f(-0.0f)},
        {{1}, f(0x1p-24f)},
        {{0x83FF}, f(-0x1.ff8p-15f)},
        {{0x7BFF}, f(65504)},
        {{0xFC00}, f(-kInf)},
        {{0x7C01}, kNanF},
        {{0x0400}, f(0x1p-14f)}}},
      {"cvt.f32.bf16 %d, %a;",
       {"b16"},
       "f32",
       {{{0x3F80}, f(1)},
        {{0x8000}, f(-0.0f)},
        {{1}, 0x00010000},
        {{0x7F80}, f(kInf)},
        {{0xFFC0}, kNanF}}},
      // the first source goes to the upper half
      {"cvt.rn.f16x2.f32 %d, %a, %b;",
       {"f32", "f32"},
       "b32",
       {{{f(1), f(-2)}, 0x3C00C000}, {{f(kNan), f(65520)}, 0x7FFF7C00}}},
      {"cvt.rn.bf16x2.f32 %d, %a, %b;",
       {"f32", "f32"},
       "b32",
       {{{f(1), f(-2)}, 0x3F80C000}, {{f(0.0f), f(kNan)}, 0x00007FFF}}},
      {"max.NaN.f16x2 %d, %a, %b;",
       {"b32", "b32"},
       "b32",
       {{{0x3C008000, 0xC0000000}, 0x3C000000}, {{0xFE000001, 0x00000002}, 0x7FFF0002}}},
      {"max.NaN.bf16x2 %d, %a, %b;",
       {"b32", "b32"},
       "b32",
       {{{0x3F80C000, 0x4000BF80}, 0x4000BF80}, {{0x0000FFC1, 0x00008001}, 0x00007FFF}}},
  };
}

}  // namespace

std::vector<Case> convert_cases() {
  std::vector<Case> all;
  for (auto part : {between_integers(), to_real(), to_integer(), between_reals(), halves()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace ptx::opcodes
