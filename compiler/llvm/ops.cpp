// Elementwise ops as LLVM IR. There are no fast-math flags: every operation is the IEEE one. Knows ir and
// the text vocabulary.
#include "compiler/llvm/ops.hpp"

#include <array>
#include <utility>
#include <vector>

#include <stepfuse/error.hpp>

#include "compiler/llvm/prelude.hpp"

namespace stepfuse::llvm {
namespace {
bool is_real(DType t) { return t == DType::f32 || t == DType::f64; }
}  // namespace

std::string Ops::real(DType t, double v) const {
  return constant(t, t == DType::f32 ? Bits::of(static_cast<float>(v)) : Bits::of(v));
}

std::string Ops::call(std::string_view intrinsic, DType t, std::span<const std::string> args,
                      std::string_view hint, std::string_view extra) {
  std::string callee = fmt::format("@llvm.{}.{}", intrinsic, suffix_text(t, lanes_));
  std::string types;
  std::string values;
  for (const std::string& a : args) {
    types += fmt::format("{}{}", types.empty() ? "" : ", ", type(t));
    values += fmt::format("{}{} {}", values.empty() ? "" : ", ", type(t), a);
  }
  if (!extra.empty()) {
    types += fmt::format(", {}", extra.substr(0, extra.find(' ')));
    values += fmt::format(", {}", extra);
  }
  m_.declarations.insert(fmt::format("declare {} {}({})", type(t), callee, types));
  return f_.set(hint, "call {} {}({})", type(t), callee, values);
}

std::string Ops::select(const std::string& condition, const std::string& value_type,
                        const std::string& yes, const std::string& no, std::string_view hint) {
  return f_.set(hint, "select {} {}, {} {}, {} {}", type(DType::boolean), condition, value_type,
                yes, value_type, no);
}

std::string Ops::splat(DType t, const std::string& scalar, std::string_view hint) {
  if (lanes_ == 1) return scalar;
  std::string one =
      f_.set(hint, "insertelement {} poison, {} {}, i32 0", type(t), type_text(t, 1), scalar);
  return f_.set(hint, "shufflevector {} {}, {} poison, <{} x i32> zeroinitializer", type(t), one,
                type(t), lanes_);
}

// Moves a mask to integer registers before testing it. `kortest`, which LLVM would choose, made a loop with
// three such tests a fifth slower on a Zen 5. The empty assembly hides from LLVM that the bits came from a
// mask.
std::string Ops::any(const std::string& bools, std::string_view hint) {
  std::string mask = f_.set(hint, "bitcast {} {} to i{}", type(DType::boolean), bools, lanes_);
  std::string bits = f_.set(hint, "zext i{} {} to i32", lanes_, mask);
  std::string plain = f_.set(hint, "call i32 asm \"\", \"=r,0\"(i32 {})", bits);
  return f_.set(hint, "icmp ne i32 {}, 0", plain);
}

std::string Ops::load(DType t, const std::string& address, std::string_view hint) {
  // Alignment is only known at run time; the hardware accepts any.
  std::string v = f_.set(hint, "load {}, ptr {}, align 1", memory_type_text(t, lanes_), address);
  if (t != DType::boolean) return v;
  return f_.set(hint, "icmp ne {} {}, {}", itype(8), v, integer(8, 0));
}

void Ops::store(DType t, const std::string& value, const std::string& address) {
  std::string v = value;
  if (t == DType::boolean) v = f_.set("byte", "zext {} {} to {}", type(t), value, itype(8));
  f_.line("store {} {}, ptr {}, align 1", memory_type_text(t, lanes_), v, address);
}

std::string Ops::apply(Op op, DType in, DType out, std::span<const std::string> args,
                       std::string_view hint) {
  auto native = [&](Op o, DType from, DType to) { return is_native(o, from, to); };
  const plan::Expansion* expansion = plan::expansion_of(op, in, out, within_, native);
  return expansion == nullptr ? machine(op, in, out, args, hint) : expand(*expansion, args, hint);
}

bool Ops::is_native(Op op, DType in, DType out) const {
  switch (op) {
    case Op::gt:
    case Op::ne:
      return true;
    case Op::rint:
    case Op::floor:
      return m_.has_rounding;
    case Op::cast:
      return converts(in, out);
    default:
      return false;
  }
}

// Emits the expansion's instructions in place, with these operands.
std::string Ops::expand(const plan::Expansion& expansion, std::span<const std::string> args,
                        std::string_view hint) {
  const plan::Expansion* outer = std::exchange(within_, &expansion);
  std::vector<std::string> names(args.begin(), args.end());
  names.resize(expansion.values.size());
  for (size_t v = args.size(); v < names.size(); ++v) {
    const plan::Value& value = expansion.values[v];
    if (value.is_constant) names[v] = constant(value.dtype, value.literal);
  }
  for (const plan::Inst& inst : expansion.code) {
    std::array<std::string, 3> in;
    auto count = static_cast<size_t>(inst.arity());
    for (size_t i = 0; i < count; ++i) in[i] = names[static_cast<size_t>(inst.operands[i])];
    names[static_cast<size_t>(inst.value)] =
        apply(inst.op, inst.in, inst.out, std::span(in).first(count), hint);
  }
  within_ = outer;
  return names[static_cast<size_t>(expansion.result)];
}

// Emits the target's own instruction.
std::string Ops::machine(Op op, DType in, DType out, std::span<const std::string> args,
                         std::string_view hint) {
  auto bitwise = [&](std::string_view instruction) {
    return f_.set(hint, "{} {} {}, {}", instruction, type(in), args[0], args[1]);
  };
  switch (op) {
    case Op::cast:
      return convert(args[0], in, out, hint);
    case Op::bitcast:
      return bitcast(args[0], in, out, hint);
    case Op::select:
      return select(args[0], type(out), args[1], args[2], hint);
    case Op::logical_not:
      return f_.set(hint, "xor {} {}, {}", type(in), args[0], constant(in, Bits::of(true)));
    case Op::bit_and:
      return bitwise("and");
    case Op::bit_or:
      return bitwise("or");
    case Op::bit_xor:
      return bitwise("xor");
    case Op::shl:
      return bitwise("shl");
    case Op::shr:
      return bitwise("lshr");
    case Op::lt:
    case Op::le:
    case Op::gt:
    case Op::eq:
    case Op::ne:
      return compare(op, in, args, hint);
    case Op::isfinite: {
      std::string magnitude = call("fabs", in, args.first(1), hint);
      std::string inf = real(in, std::numeric_limits<double>::infinity());
      return f_.set(hint, "fcmp olt {} {}, {}", type(in), magnitude, inf);
    }
    case Op::fma:
      return fma(in, args, hint);
    case Op::powi:
      return powi(in, args, hint);
    default:
      return number(op, in, args, hint);
  }
}

std::string Ops::compare(Op op, DType t, std::span<const std::string> args, std::string_view hint) {
  std::string_view relation = info(op).name;
  bool is_equality = op == Op::eq || op == Op::ne;
  std::string_view instruction =
      is_real(t) ? (op == Op::ne ? "fcmp u" : "fcmp o") : (is_equality ? "icmp " : "icmp s");
  return f_.set(hint, "{}{} {} {}, {}", instruction, relation, type(t), args[0], args[1]);
}

std::string Ops::number(Op op, DType t, std::span<const std::string> args, std::string_view hint) {
  bool real_type = is_real(t);
  auto binary = [&](std::string_view instruction) {
    return f_.set(hint, "{}{} {} {}, {}", real_type ? "f" : "", instruction, type(t), args[0],
                  args[1]);
  };
  switch (op) {
    case Op::neg:
      if (real_type) return f_.set(hint, "fneg {} {}", type(t), args[0]);
      return f_.set(hint, "sub {} {}, {}", type(t), constant(t, {}), args[0]);
    case Op::abs:
      if (real_type) return call("fabs", t, args, hint);
      return call("abs", t, args, hint, "i1 false");
    case Op::sqrt:
      return call("sqrt", t, args, hint);
    case Op::rint:
      return call("roundeven", t, args, hint);
    case Op::floor:
      return call("floor", t, args, hint);
    case Op::rcp:
      return f_.set(hint, "fdiv {} {}, {}", type(t), real(t, 1), args[0]);
    case Op::add:
      return binary("add");
    case Op::sub:
      return binary("sub");
    case Op::mul:
      return binary("mul");
    case Op::div:
      return real_type ? binary("div") : divide_integers(t, args[0], args[1], hint);
    case Op::min:
      return call(real_type ? "minimum" : "smin", t, args, hint);
    case Op::max:
      return call(real_type ? "maximum" : "smax", t, args, hint);
    default:
      internal_error(fmt::format("no LLVM expression for op {}", info(op).name));
  }
}

// Vectors have no integer division. The f64 quotient of two i32 truncates to the exact one.
std::string Ops::divide_integers(DType t, const std::string& a, const std::string& b,
                                 std::string_view hint) {
  if (lanes_ == 1) return f_.set(hint, "sdiv {} {}, {}", type(t), a, b);
  check_internal(t == DType::i32, "element code holds no i64");
  std::string wide = type(DType::f64);
  std::string x = f_.set(hint, "sitofp {} {} to {}", type(t), a, wide);
  std::string y = f_.set(hint, "sitofp {} {} to {}", type(t), b, wide);
  std::string q = f_.set(hint, "fdiv {} {}, {}", wide, x, y);
  return f_.set(hint, "fptosi {} {} to {}", wide, q, type(t));
}

std::string Ops::fma(DType t, std::span<const std::string> args, std::string_view hint) {
  if (m_.has_fma) return call("fma", t, args, hint);
  if (t == DType::f32) return fma_by_f64(args, hint);
  check_internal(lanes_ == 1, "element code holds no f64");
  use_helper(m_, "sf_fma_f64");
  return f_.set(hint, "call double @sf_fma_f64(double {}, double {}, double {})", args[0], args[1],
                args[2]);
}

// The product is exact in f64. The sum is rounded to odd, so that narrowing rounds only once: if the sum
// lost something (TwoSum's error is not 0) and its last bit is even, it moves by one unit towards the lost
// part.
std::string Ops::fma_by_f64(std::span<const std::string> args, std::string_view hint) {
  std::string wide = type(DType::f64);
  std::string word = itype(64);
  auto f64 = [&](const std::string& v) {
    return f_.set(hint, "fpext {} {} to {}", type(DType::f32), v, wide);
  };
  auto binary = [&](std::string_view instruction, const std::string& a, const std::string& b) {
    return f_.set(hint, "{} {} {}, {}", instruction, wide, a, b);
  };
  auto bitwise = [&](std::string_view instruction, const std::string& a, const std::string& b) {
    return f_.set(hint, "{} {} {}, {}", instruction, word, a, b);
  };
  std::string p = binary("fmul", f64(args[0]), f64(args[1]));
  std::string c = f64(args[2]);
  std::string s = binary("fadd", p, c);
  std::string c_part = binary("fsub", s, p);
  std::string p_part = binary("fsub", s, c_part);
  std::string p_error = binary("fsub", p, p_part);
  std::string c_error = binary("fsub", c, c_part);
  std::string error = binary("fadd", p_error, c_error);
  std::string zero = constant(DType::f64, {});
  std::string lost = f_.set(hint, "fcmp one {} {}, {}", wide, error, zero);
  std::string bits = f_.set(hint, "bitcast {} {} to {}", wide, s, word);
  std::string error_bits = f_.set(hint, "bitcast {} {} to {}", wide, error, word);
  std::string last = bitwise("and", bits, integer(64, 1));
  std::string even = f_.set(hint, "icmp eq {} {}, {}", word, last, integer(64, 0));
  std::string moves = f_.set(hint, "and {} {}, {}", type(DType::boolean), lost, even);
  // +1 if error and sum have the same sign, otherwise -1.
  std::string signs = bitwise("xor", bits, error_bits);
  std::string unit = bitwise("or", bitwise("ashr", signs, integer(64, 63)), integer(64, 1));
  std::string odd = bitwise("add", bits, unit);
  std::string chosen = select(moves, word, odd, bits, hint);
  std::string result = f_.set(hint, "bitcast {} {} to {}", word, chosen, wide);
  return f_.set(hint, "fptrunc {} {} to {}", wide, result, type(DType::f32));
}

std::string Ops::powi(DType t, std::span<const std::string> args, std::string_view hint) {
  check_internal(lanes_ == 1, "powi is not available per element");
  std::string_view helper = t == DType::f32 ? "sf_powi_f32" : "sf_powi_f64";
  use_helper(m_, helper);
  return f_.set(hint, "call {} @{}({} {}, i64 {})", type(t), helper, type(t), args[0], args[1]);
}

}  // namespace stepfuse::llvm
