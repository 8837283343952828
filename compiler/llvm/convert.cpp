// Casts as LLVM IR, to the bit what ir/semantics.hpp and ir/narrow.hpp define. bf16 is never an
// LLVM bfloat, which would flush subnormals on some processors and be a library call on others.
// Knows ir and the text vocabulary.
#include <limits>

#include <stepfuse/error.hpp>

#include "compiler/llvm/ops.hpp"

namespace stepfuse::llvm {

std::string Ops::bits_of(const std::string& v, std::string_view hint) {
  return f_.set(hint, "bitcast {} {} to {}", type(DType::f32), v, itype(32));
}
std::string Ops::float_of(const std::string& bits, std::string_view hint) {
  return f_.set(hint, "bitcast {} {} to {}", itype(32), bits, type(DType::f32));
}

std::string Ops::convert(const std::string& v, DType from, DType to, std::string_view hint) {
  if (from == to) return v;
  if (from == DType::f16) return widen_f16(v, hint);
  if (from == DType::bf16) return widen_bf16(v, hint);
  if (to == DType::f16) return narrow_f16(v, hint);
  if (to == DType::bf16) return narrow_bf16(v, hint);
  auto by = [&](std::string_view instruction) {
    return f_.set(hint, "{} {} {} to {}", instruction, type(from), v, type(to));
  };
  if (from == DType::boolean) {
    if (is_integer(to)) return by("zext");
    return select(v, type(to), real(to, 1), real(to, 0), hint);
  }
  if (is_integer(from)) {
    if (is_integer(to)) return by(to == DType::i64 ? "sext" : "trunc");
    return by("sitofp");
  }
  if (is_integer(to)) return float_to_int(v, from, to, hint);
  return by(to == DType::f64 ? "fpext" : "fptrunc");
}

// The bits as they are.
std::string Ops::bitcast(const std::string& v, DType from, DType to, std::string_view hint) {
  std::string_view instruction = size_of(from) < size_of(to)   ? "zext"
                                 : size_of(from) > size_of(to) ? "trunc"
                                                               : "bitcast";
  return f_.set(hint, "{} {} {} to {}", instruction, type(from), v, type(to));
}

// Truncates, saturates, NaN -> 0. LLVM's fptosi is undefined out of range, so it gets 0 there.
std::string Ops::float_to_int(const std::string& v, DType from, DType to, std::string_view hint) {
  double limit = to == DType::i32 ? 0x1p31 : 0x1p63;
  Bits most = to == DType::i32 ? Bits::of(std::numeric_limits<int32_t>::max())
                               : Bits::of(std::numeric_limits<int64_t>::max());
  Bits least = to == DType::i32 ? Bits::of(std::numeric_limits<int32_t>::min())
                                : Bits::of(std::numeric_limits<int64_t>::min());
  std::string below = f_.set(hint, "fcmp olt {} {}, {}", type(from), v, real(from, -limit));
  std::string above = f_.set(hint, "fcmp oge {} {}, {}", type(from), v, real(from, limit));
  std::string nan = f_.set(hint, "fcmp uno {} {}, {}", type(from), v, v);
  std::string out = f_.set(hint, "or {} {}, {}", type(DType::boolean), below, above);
  std::string odd = f_.set(hint, "or {} {}, {}", type(DType::boolean), out, nan);
  std::string safe = select(odd, type(from), real(from, 0), v, hint);
  std::string i = f_.set(hint, "fptosi {} {} to {}", type(from), safe, type(to));
  std::string high = select(above, type(to), constant(to, most), i, hint);
  return select(below, type(to), constant(to, least), high, hint);
}

std::string Ops::widen_bf16(const std::string& v, std::string_view hint) {
  std::string wide = f_.set(hint, "zext {} {} to {}", itype(16), v, itype(32));
  std::string bits = f_.set(hint, "shl {} {}, {}", itype(32), wide, integer(32, 16));
  return float_of(bits, hint);
}

std::string Ops::narrow_bf16(const std::string& v, std::string_view hint) {
  std::string bits = bits_of(v, hint);
  std::string high = f_.set(hint, "lshr {} {}, {}", itype(32), bits, integer(32, 16));
  std::string last = f_.set(hint, "and {} {}, {}", itype(32), high, integer(32, 1));
  // Ties to even; a carry goes into the exponent, and so to infinity.
  std::string bias = f_.set(hint, "add {} {}, {}", itype(32), last, integer(32, 0x7fff));
  std::string rounded = f_.set(hint, "add {} {}, {}", itype(32), bits, bias);
  std::string shifted = f_.set(hint, "lshr {} {}, {}", itype(32), rounded, integer(32, 16));
  std::string nan = f_.set(hint, "fcmp uno {} {}, {}", type(DType::f32), v, v);
  std::string chosen = select(nan, itype(32), integer(32, 0x7fff), shifted, hint);
  return f_.set(hint, "trunc {} {} to {}", itype(32), chosen, itype(16));
}

std::string Ops::widen_f16(const std::string& v, std::string_view hint) {
  if (m_.has_f16) {
    std::string half = lanes_ == 1 ? "half" : fmt::format("<{} x half>", lanes_);
    std::string h = f_.set(hint, "bitcast {} {} to {}", itype(16), v, half);
    return f_.set(hint, "fpext {} {} to {}", half, h, type(DType::f32));
  }
  auto bitwise = [&](std::string_view instruction, const std::string& a, uint64_t b) {
    return f_.set(hint, "{} {} {}, {}", instruction, itype(32), a, integer(32, b));
  };
  auto below = [&](const std::string& a, uint64_t b) {
    return f_.set(hint, "icmp ult {} {}, {}", itype(32), a, integer(32, b));
  };
  std::string wide = f_.set(hint, "zext {} {} to {}", itype(16), v, itype(32));
  std::string sign = bitwise("shl", bitwise("and", wide, 0x8000), 16);
  std::string magnitude = bitwise("and", wide, 0x7fff);
  std::string shifted = bitwise("shl", magnitude, 13);
  std::string normal = bitwise("add", shifted, 112U << 23);
  // A subnormal is a multiple of 2^-24, exact in f32.
  std::string count = f_.set(hint, "sitofp {} {} to {}", itype(32), magnitude, type(DType::f32));
  std::string tiny =
      f_.set(hint, "fmul {} {}, {}", type(DType::f32), count, real(DType::f32, 0x1p-24));
  std::string finite =
      select(below(magnitude, 0x400), itype(32), bits_of(tiny, hint), normal, hint);
  std::string special = bitwise("or", shifted, 0x7f800000);
  std::string unsigned_bits = select(below(magnitude, 0x7c00), itype(32), finite, special, hint);
  return float_of(f_.set(hint, "or {} {}, {}", itype(32), unsigned_bits, sign), hint);
}

std::string Ops::narrow_f16(const std::string& v, std::string_view hint) {
  std::string nan = f_.set(hint, "fcmp uno {} {}, {}", type(DType::f32), v, v);
  if (m_.has_f16) {
    std::string half = lanes_ == 1 ? "half" : fmt::format("<{} x half>", lanes_);
    std::string h = f_.set(hint, "fptrunc {} {} to {}", type(DType::f32), v, half);
    std::string bits = f_.set(hint, "bitcast {} {} to {}", half, h, itype(16));
    return select(nan, itype(16), integer(16, 0x7fff), bits, hint);
  }
  std::string chosen = select(nan, itype(32), integer(32, 0x7fff), round_f16(v), hint);
  return f_.set(hint, "trunc {} {} to {}", itype(32), chosen, itype(16));
}

// The f16 bits of a number (not NaN), in 32-bit lanes.
std::string Ops::round_f16(const std::string& v) {
  std::string_view hint = "half";
  auto bitwise = [&](std::string_view instruction, const std::string& a, uint64_t b) {
    return f_.set(hint, "{} {} {}, {}", instruction, itype(32), a, integer(32, b));
  };
  auto below = [&](const std::string& a, uint64_t b) {
    return f_.set(hint, "icmp ult {} {}, {}", itype(32), a, integer(32, b));
  };
  std::string bits = bits_of(v, hint);
  std::string sign = bitwise("and", bitwise("lshr", bits, 16), 0x8000);
  std::string magnitude = bitwise("and", bits, 0x7fffffff);
  // Below the smallest normal: adding 0.5, whose last place is 2^-24, rounds to a multiple of it.
  std::string moved = f_.set(hint, "fadd {} {}, {}", type(DType::f32), float_of(magnitude, hint),
                             real(DType::f32, 0.5));
  std::string tiny = bitwise("sub", bits_of(moved, hint), 0x3f000000);
  std::string last = bitwise("and", bitwise("lshr", magnitude, 13), 1);
  std::string bias = bitwise("add", last, 0xfff);
  std::string rounded = f_.set(hint, "add {} {}, {}", itype(32), magnitude, bias);
  std::string normal = bitwise("lshr", bitwise("sub", rounded, 112U << 23), 13);
  std::string finite = select(below(magnitude, 0x38800000), itype(32), tiny, normal, hint);
  // 65520 and above.
  std::string all =
      select(below(magnitude, 0x477ff000), itype(32), finite, integer(32, 0x7c00), hint);
  return f_.set(hint, "or {} {}, {}", itype(32), all, sign);
}

}  // namespace stepfuse::llvm
