// Casts as LLVM has them. bf16 is an LLVM bfloat only if narrow_bf16 allows it: it would flush subnormals
// on some processors and be a library call on others. Knows ir and the text vocabulary.
#include <array>
#include <bit>
#include <cmath>

#include "compiler/llvm/ops.hpp"

namespace stepfuse::llvm {
namespace {
bool is_byte_float(DType t) { return t == DType::f8e4m3 || t == DType::f8e5m2; }
}  // namespace

// Whether there is shorter code than the expansion.
bool Ops::converts(DType from, DType to) const {
  if (is_byte_float(from)) return lanes_ > 1 && m_.has_f16;
  if (is_byte_float(to)) return lanes_ > 1;
  if (to == DType::bf16) return m_.has_bf16 && lanes_ == m_.lanes;
  if (to == DType::i32) return from == DType::f32 && m_.has_permutes && lanes_ == 8;
  return m_.has_f16 && (from == DType::f16 || to == DType::f16);
}

std::string Ops::convert(const std::string& v, DType from, DType to, std::string_view hint) {
  if (from == to) return v;
  if (from == DType::f16) return widen_f16(v, hint);
  if (is_byte_float(from)) return widen_f8(v, from, hint);
  if (is_byte_float(to)) return narrow_f8(v, to, hint);
  if (from == DType::f32 && to == DType::i32 && converts(from, to)) return truncate(v, hint);
  if (to == DType::f16) return narrow_f16(v, hint);
  if (to == DType::bf16) return narrow_bf16(v, hint);
  auto by = [&](std::string_view instruction) {
    return f_.set(hint, "{} {} {} to {}", instruction, type(from), v, type(to));
  };
  if (is_narrow_integer(from)) return by(info(from).kind == DTypeKind::natural ? "zext" : "sext");
  if (is_narrow_integer(to)) return by("trunc");
  if (from == DType::boolean) {
    if (is_integer(to)) return by("zext");
    return select(v, type(to), real(to, 1), real(to, 0), hint);
  }
  if (is_integer(from)) {
    if (is_integer(to)) return by(to == DType::i64 ? "sext" : "trunc");
    return by("sitofp");
  }
  if (is_integer(to)) return by("fptosi");
  return by(to == DType::f64 ? "fpext" : "fptrunc");
}

// Reinterprets the bits.
std::string Ops::bitcast(const std::string& v, DType from, DType to, std::string_view hint) {
  std::string_view instruction = size_of(from) < size_of(to)   ? "zext"
                                 : size_of(from) > size_of(to) ? "trunc"
                                                               : "bitcast";
  return f_.set(hint, "{} {} {} to {}", instruction, type(from), v, type(to));
}

std::string Ops::half() const { return lanes_ == 1 ? "half" : fmt::format("<{} x half>", lanes_); }

std::string Ops::widen_f16(const std::string& v, std::string_view hint) {
  std::string h = f_.set(hint, "bitcast {} {} to {}", itype(16), v, half());
  return f_.set(hint, "fpext {} {} to {}", half(), h, type(DType::f32));
}

std::string Ops::number_or(const std::string& v, float nan, std::string_view hint) {
  std::string floats = type(DType::f32);
  std::string number = f_.set(hint, "fcmp ord {} {}, {}", floats, v, v);
  return select(number, floats, v, constant(DType::f32, Bits::of(nan)), hint);
}

std::string Ops::narrow_f16(const std::string& v, std::string_view hint) {
  constexpr uint32_t kNan = 0x7fffe000;  // its upper bits are the language's NaN
  std::string number = number_or(v, std::bit_cast<float>(kNan), hint);
  std::string h = f_.set(hint, "fptrunc {} {} to {}", type(DType::f32), number, half());
  return f_.set(hint, "bitcast {} {} to {}", half(), h, itype(16));
}

// An f8e5m2 is the upper half of an f16. The bits of an f8e4m3 are those of an f16 that is 2^-8 of the
// number, except for its NaNs.
std::string Ops::widen_f8(const std::string& v, DType from, std::string_view hint) {
  std::string words = itype(16);
  auto by = [&](std::string_view op, const std::string& a, uint64_t b) {
    return f_.set(hint, "{} {} {}, {}", op, words, a, integer(16, b));
  };
  std::string wide = f_.set(hint, "sext {} {} to {}", type(from), v, words);
  if (from == DType::f8e5m2) return widen_f16(by("shl", wide, 8), hint);
  std::string placed = by("and", by("shl", wide, 7), 0xbfff);
  std::string is_nan =
      f_.set(hint, "icmp eq {} {}, {}", words, by("and", placed, 0x3f80), integer(16, 0x3f80));
  std::string all = f_.set(hint, "sext {} {} to {}", type(DType::boolean), is_nan, words);
  std::string part = widen_f16(f_.set(hint, "or {} {}, {}", words, placed, all), hint);
  return f_.set(hint, "fmul {} {}, {}", type(DType::f32), part, real(DType::f32, 256));
}

// Rounds by adding 2^k. k is so much larger than the number's exponent (or the smallest normal one) that
// the sum has no bits below the type's last one; the excess of the sum counts units of that bit. Numbers
// beyond the type are clamped to the first number beyond, and a NaN becomes the number that its bits would
// represent.
std::string Ops::narrow_f8(const std::string& v, DType to, std::string_view hint) {
  const DTypeInfo& t = info(to);
  std::string floats = type(DType::f32);
  std::string words = itype(32);
  auto by = [&](std::string_view op, const std::string& a, const std::string& b) {
    return f_.set(hint, "{} {} {}, {}", op, words, a, b);
  };
  auto bits_of = [&](const std::string& x) {
    return f_.set(hint, "bitcast {} {} to {}", floats, x, words);
  };
  auto as_number = [&](uint64_t pattern) {  // as if the largest exponent were one like the others
    double part = static_cast<double>(pattern & ((1U << t.fraction_bits) - 1));
    double whole = std::ldexp(1.0, t.fraction_bits) + part;
    int exponent = static_cast<int>(pattern >> t.fraction_bits) - t.bias() - t.fraction_bits;
    return static_cast<float>(std::ldexp(whole, exponent));
  };
  float most = as_number(t.highest);
  std::string held = bounded("max", bounded("min", v, most, hint), -most, hint);
  std::string is_number = f_.set(hint, "fcmp ord {} {}, {}", floats, v, v);
  std::string number =
      select(is_number, floats, held, constant(DType::f32, Bits::of(as_number(t.nan))), hint);
  std::string size = call("fabs", DType::f32, {&number, 1}, hint);
  int dropped = 23 - t.fraction_bits;
  auto first = static_cast<uint64_t>(128 - t.bias()) << 23;
  std::array<std::string, 2> larger = {by("and", bits_of(size), integer(32, 0x7f800000)),
                                       integer(32, first)};
  std::string exponent = call("smax", DType::i32, larger, hint);
  std::string base = by("add", exponent, integer(32, static_cast<uint64_t>(dropped) << 23));
  std::string added = f_.set(hint, "bitcast {} {} to {}", words, base, floats);
  std::string sum = f_.set(hint, "fadd {} {}, {}", floats, size, added);
  std::string units = by("sub", bits_of(sum), base);
  auto places = integer(32, static_cast<uint64_t>(dropped));
  std::string code = by("add", units, by("lshr", exponent, places));
  std::string from_zero = by("sub", code, integer(32, first >> dropped));
  std::string high = by("lshr", bits_of(number), integer(32, 24));
  std::string sign = by("and", high, integer(32, t.sign()));
  std::string result = by("or", from_zero, sign);
  return f_.set(hint, "trunc {} {} to {}", words, result, type(to));
}

// AVX's conversion gives the smallest integer for numbers that do not fit. For numbers above the largest
// one, this is inverted.
std::string Ops::truncate(const std::string& v, std::string_view hint) {
  constexpr std::string_view kTruncate = "<8 x i32> @llvm.x86.avx.cvtt.ps2dq.256(<8 x float>";
  m_.declarations.insert(fmt::format("declare {})", kTruncate));
  std::string whole = f_.set(hint, "call {} {})", kTruncate, number_or(v, 0, hint));
  std::string above = f_.set(hint, "fcmp oge {} {}, {}", type(DType::f32), v,
                             constant(DType::f32, Bits::of(0x1p31F)));
  std::string all = f_.set(hint, "sext {} {} to {}", type(DType::boolean), above, itype(32));
  return f_.set(hint, "xor {} {}, {}", itype(32), whole, all);
}

// The processor rounds whole vectors, but flushes subnormal numbers and keeps the bits of NaNs. Vectors
// with such an element are rare and are rounded as on other processors.
std::string Ops::narrow_bf16(const std::string& v, std::string_view hint) {
  constexpr int kNanOrSubnormal = 0x01 | 0x20 | 0x80;
  constexpr std::string_view kClass = "<16 x i1> @llvm.x86.avx512.fpclass.ps.512(<16 x float>";
  constexpr std::string_view kRound =
      "<16 x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.512(<16 x float>";
  m_.declarations.insert(fmt::format("declare {}, i32)", kClass));
  m_.declarations.insert(fmt::format("declare {})", kRound));
  std::string odd = f_.set(hint, "call {} {}, i32 {})", kClass, v, kNanOrSubnormal);
  auto exact = [&] {
    auto never = [](Op, DType, DType) { return false; };
    const std::string operands[] = {v};
    return expand(*plan::expansion_of(Op::cast, DType::f32, DType::bf16, nullptr, never), operands,
                  hint);
  };
  auto quick = [&] {
    std::string rounded = f_.set(hint, "call {} {})", kRound, v);
    return f_.set(hint, "bitcast <16 x bfloat> {} to {}", rounded, itype(16));
  };
  return f_.choose(hint, itype(16), any(odd, hint), exact, quick, true);
}

}  // namespace stepfuse::llvm
