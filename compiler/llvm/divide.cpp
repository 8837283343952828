// Divides a vector by a value that is not per element, with the bits of the machine's division but without
// the divide instruction, which limits the speed of Adam-like steps. Knows the plan and the expression
// table.
//
// With r = 1/d rounded, q = x*r is less than 1.5 units in the last place off x/d, and the remainder q*d - x
// is exact if q is less than one unit off. Then q - (q*d - x)*r, before rounding, is closer to x/d than any
// midpoint between two floats. Midpoints are at least 1/(2D) units away, where D is d's significand as an
// integer below 2^24. The correction's error is at most D/2^48 times the error of q, which next to a
// midpoint is half a unit. If q is more than one unit off, x/d is next to a float. All of this requires
// that nothing underflows, overflows or is NaN; other vectors use the divide instruction.
#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "compiler/llvm/body.hpp"

namespace stepfuse::llvm {
namespace {
// Returns the bits of a power of two as f32, without the sign and shifted left by one.
constexpr uint64_t power(int exponent) { return static_cast<uint64_t>(exponent + 127) << 24; }
constexpr int kDivisor = 20;    // limit of |log2 of d|
constexpr int kDividend = 100;  // and of |log2 of x|, unless x is zero
}  // namespace

// Computes the parts of a division by `d` that are the same for the whole chunk.
void BodyEmitter::prepare_division(const plan::Inst& inst) {
  plan::Id d = inst.operands[1];
  bool is_by_uniform = inst.op == Op::div && inst.out == DType::f32 && m_.has_fma &&
                       plan_.is_element(inst.operands[0]) && !plan_.is_element(d) &&
                       body_.unit == 1;
  if (!is_by_uniform || divisors_.contains(d)) return;
  Divisor& divisor = divisors_[d];
  const std::string& hint = name(d);
  std::array<std::string, 2> args = {literal(DType::f32, Bits::of(1.0F)), u_[d]};
  std::string one_over = scalar_.apply(Op::div, DType::f32, DType::f32, args, hint);
  divisor.reciprocal = vector_.splat(DType::f32, one_over, hint);
  std::string bits = f_.set(hint, "bitcast float {} to i32", u_[d]);
  uint64_t low = power(-kDivisor) >> 1;
  std::string above = f_.set(hint, "sub i32 {}, {}", bits, low);
  divisor.is_far = f_.set(hint, "icmp ugt i32 {}, {}", above, (power(kDivisor) >> 1) - low);
}

// Whether some element of x cannot be divided without the divide instruction.
std::string BodyEmitter::is_far(plan::Id x, const std::string& value, const std::string& hint) {
  std::string f32 = vector_.type(DType::f32);
  auto is_root = [&](const plan::Inst& i) { return i.value == x && i.op == Op::sqrt; };
  std::string far;
  if (std::any_of(body_.code.begin(), body_.code.end(), is_root)) {
    // The allowed numbers are 2^-149 … 2^128 and zero.
    float inf = std::numeric_limits<float>::infinity();
    far =
        f_.set(hint, "fcmp uge {} {}, {}", f32, value, vector_.constant(DType::f32, Bits::of(inf)));
  } else {
    std::string i32 = vector_.type(DType::i32);
    auto integer = [&](uint64_t v) { return integer_text(32, v, m_.lanes); };
    std::string bits = f_.set(hint, "bitcast {} {} to {}", f32, value, i32);
    std::string size = f_.set(hint, "shl {} {}, {}", i32, bits, integer(1));
    std::string above = f_.set(hint, "sub {} {}, {}", i32, size, integer(power(-kDividend)));
    std::string beyond = f_.set(hint, "icmp ugt {} {}, {}", i32, above,
                                integer(power(kDividend) - power(-kDividend)));
    std::string some = f_.set(hint, "icmp ne {} {}, {}", i32, size, integer(0));
    far = f_.set(hint, "and {} {}, {}", vector_.type(DType::boolean), beyond, some);
  }
  return vector_.any(far, hint);
}

std::string BodyEmitter::divide(const plan::Inst& inst, const Divisor& divisor) {
  const std::string& hint = name(inst.value);
  const std::string& x = vectors_.at(inst.operands[0]);
  const std::string& d = vectors_.at(inst.operands[1]);
  std::string any = is_far(inst.operands[0], x, hint);
  std::string far = f_.set(hint, "or i1 {}, {}", any, divisor.is_far);
  auto apply = [&](Op op, std::initializer_list<std::string> args) {
    return vector_.apply(op, DType::f32, DType::f32, std::span(args.begin(), args.size()), hint);
  };
  auto exact = [&] { return apply(Op::div, {x, d}); };
  auto quick = [&] {
    std::string q = apply(Op::mul, {x, divisor.reciprocal});
    // Negated so that x = -0 gives -0.
    std::string rest = apply(Op::fma, {q, d, apply(Op::neg, {x})});
    return apply(Op::fma, {apply(Op::neg, {rest}), divisor.reciprocal, q});
  };
  return f_.choose(hint, vector_.type(DType::f32), far, exact, quick, true);
}

}  // namespace stepfuse::llvm
