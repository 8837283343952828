// Casts as LLVM has them. bf16 is an LLVM bfloat only where narrow_bf16 says so: it would flush subnormals on some
// processors and be a library call on others. Knows ir and the text vocabulary.
#include "compiler/llvm/ops.hpp"

namespace stepfuse::llvm {

std::string Ops::convert(const std::string& v, DType from, DType to, std::string_view hint) {
  if (from == to) return v;
  if (from == DType::f16) return widen_f16(v, hint);
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

// The bits as they are.
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

std::string Ops::narrow_f16(const std::string& v, std::string_view hint) {
  std::string nan = f_.set(hint, "fcmp uno {} {}, {}", type(DType::f32), v, v);
  std::string h = f_.set(hint, "fptrunc {} {} to {}", type(DType::f32), v, half());
  std::string bits = f_.set(hint, "bitcast {} {} to {}", half(), h, itype(16));
  return select(nan, itype(16), integer(16, 0x7fff), bits, hint);
}

// The processor rounds whole vectors, but makes zeros of subnormal numbers and keeps NaNs' bits: those with such an
// element, which are rare, go the way of other processors.
std::string Ops::narrow_bf16(const std::string& v, std::string_view hint) {
  constexpr int kNanOrSubnormal = 0x01 | 0x20 | 0x80;
  constexpr std::string_view kClass = "<16 x i1> @llvm.x86.avx512.fpclass.ps.512(<16 x float>";
  constexpr std::string_view kRound =
      "<16 x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.512(<16 x float>";
  m_.declarations.insert(fmt::format("declare {}, i32)", kClass));
  m_.declarations.insert(fmt::format("declare {})", kRound));
  std::string odd = f_.set(hint, "call {} {}, i32 {})", kClass, v, kNanOrSubnormal);
  std::string fast = f_.label("round.fast");
  std::string slow = f_.label("round.slow");
  std::string end = f_.label("rounded");
  f_.line("br i1 {}, label %{}, label %{}, !prof !1", any(odd, hint), slow, fast);
  f_.block(fast);
  std::string rounded = f_.set(hint, "call {} {})", kRound, v);
  std::string quick = f_.set(hint, "bitcast <16 x bfloat> {} to {}", rounded, itype(16));
  f_.jump(end);
  f_.block(slow);
  auto never = [](Op, DType, DType) { return false; };
  const std::string operands[] = {v};
  const plan::Expansion* by_bits =
      plan::expansion_of(Op::cast, DType::f32, DType::bf16, nullptr, never);
  std::string exact = expand(*by_bits, operands, hint);
  f_.jump(end);
  f_.block(end);
  return f_.set(hint, "phi {} [ {}, %{} ], [ {}, %{} ]", itype(16), quick, fast, exact, slow);
}

}  // namespace stepfuse::llvm
