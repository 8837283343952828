// Casts as LLVM has them. bf16 is never an LLVM bfloat, which would flush subnormals on some processors
// and be a library call on others. Knows ir and the text vocabulary.
#include "compiler/llvm/ops.hpp"

namespace stepfuse::llvm {

std::string Ops::convert(const std::string& v, DType from, DType to, std::string_view hint) {
  if (from == to) return v;
  if (from == DType::f16) return widen_f16(v, hint);
  if (to == DType::f16) return narrow_f16(v, hint);
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

}  // namespace stepfuse::llvm
