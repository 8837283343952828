// Composes exp, log, tanh and the remainder from ops. exp2 and log2 are ops with fixed sequences of
// operations (ir/semantics/powers.hpp), from which exp and log follow.
#include "ir/formula/elementary.hpp"

#include <span>

namespace stepfuse::formula {
namespace {

constexpr double kTanhEnd = 0.55;  // below it tanh is a polynomial, above it follows from exp

// tanh(x) = x + x^3 (c[0] + x^2 (c[1] + …)), a minimax polynomial below kTanhEnd.
constexpr double kTanh32[] = {-0x1.555554p-2, 0x1.110feap-3, -0x1.b9a044p-5, 0x1.5d220ep-6,
                              -0x1.b13538p-8};
constexpr double kTanh64[] = {
    -0x1.5555555555555p-2,  0x1.1111111111109p-3,  -0x1.ba1ba1ba1a732p-5,  0x1.664f48822e9a5p-6,
    -0x1.226e3539b9272p-7,  0x1.d6d3c60009e9cp-9,  -0x1.7da25da5066b5p-10, 0x1.3547bfaa42508p-11,
    -0x1.f41d11ba745a0p-13, 0x1.8c93b7d5aba25p-14, -0x1.1adede7706052p-15, 0x1.08378067f032ap-17};

// The constants for one type. A constant in two parts has twice the type's digits.
struct Numbers {
  double log2_e, log2_e_low;
  double ln2, ln2_low;  // both have the same sign, for infinite logarithms
  double far;           // beyond it exp is 0 or infinite
  double large;         // below the largest exponent of two; x - 1 is exact for such an x
  std::span<const double> tanh;
};
constexpr Numbers kNumbers32 = {
    0x1.715476p+0, 0x1.4ae0cp-26, 0x1.62e42ep-1, 0x1.efa39ep-25, 150, 80, kTanh32};
constexpr Numbers kNumbers64 = {0x1.71547652b82fep+0,
                                0x1.777d0ffda0d24p-56,
                                0x1.62e42fefa39efp-1,
                                0x1.abc9e3b39803fp-56,
                                1400,
                                700,
                                kTanh64};

// Writes ops of one type. No call has two arguments that write ops: compilers evaluate arguments in different orders,
// and a step's text shows the order.
class Writer {
 public:
  Writer(Values& v, SourceLoc loc, DType t)
      : numbers(t == DType::f32 ? kNumbers32 : kNumbers64), v_(v), loc_(loc), t_(t) {}

  Value constant(double c) const { return t_ == DType::f32 ? v_.c.f32(c) : v_.c.f64(c); }
  Value named(Value made) const { return v_.made(loc_, made).value; }
  template <class... T>
  Value op(Op op, T... operands) const {
    return named(v_.c.b.apply(op, {operands...}));
  }
  Value choose(Value condition, Value yes, Value no) const {
    return op(Op::select, condition, yes, no);
  }

  // Returns 2^p (1 + low ln 2), where p + low is x log2(e) with more digits than the type has. The power
  // may overflow although the result does not; therefore the exponent is one less and the result is
  // doubled.
  Value exp(Value x) const {
    Value far = constant(numbers.far);
    Value near = op(Op::clamp, x, constant(-numbers.far), far);
    Value log2_e = constant(numbers.log2_e);
    Value p = op(Op::mul, near, log2_e);
    Value lost = op(Op::fma, near, log2_e, op(Op::neg, p));
    Value low = op(Op::fma, near, constant(numbers.log2_e_low), lost);
    Value is_large = op(Op::lt, constant(numbers.large), p);
    Value power = op(Op::exp2, choose(is_large, op(Op::sub, p, constant(1)), p));
    Value result = op(Op::fma, power, op(Op::mul, low, constant(numbers.ln2)), power);
    Value doubled = choose(is_large, op(Op::add, result, result), result);
    return choose(op(Op::isfinite, power), doubled, power);
  }

  Value log(Value x) const {
    Value l = op(Op::log2, x);
    Value low = op(Op::mul, l, constant(numbers.ln2_low));
    return op(Op::fma, l, constant(numbers.ln2), low);
  }

  Value tanh(Value x) const {
    Value size = op(Op::abs, x);
    Value square = op(Op::mul, size, size);
    Value series = constant(numbers.tanh.back());
    for (size_t i = numbers.tanh.size() - 1; i-- > 0;) {
      series = op(Op::fma, series, square, constant(numbers.tanh[i]));
    }
    Value small = op(Op::fma, op(Op::mul, size, square), series, size);
    Value power = exp(op(Op::add, size, size));
    Value divisor = op(Op::add, power, constant(1));
    Value rest = op(Op::div, constant(2), divisor);
    Value is_small = op(Op::lt, size, constant(kTanhEnd));
    Value result = choose(is_small, small, op(Op::sub, constant(1), rest));
    return op(Op::mul, result, op(Op::sign, x));  // keeps the sign of a zero
  }

  const Numbers& numbers;

 private:
  Values& v_;
  SourceLoc loc_;
  DType t_;
};

Operand apply(Values& v, SourceLoc loc, const Operand& x, Value (Writer::*function)(Value) const) {
  DType t = Values::real(v.common({&x, 1}));
  return {loc, (Writer(v, loc, t).*function)(v.to(x, t)), {}};
}

}  // namespace

Operand exp(Values& v, SourceLoc loc, const Operand& x) { return apply(v, loc, x, &Writer::exp); }
Operand log(Values& v, SourceLoc loc, const Operand& x) { return apply(v, loc, x, &Writer::log); }
Operand tanh(Values& v, SourceLoc loc, const Operand& x) { return apply(v, loc, x, &Writer::tanh); }

Operand remainder(Values& v, SourceLoc loc, const Operand& a, const Operand& b) {
  const Operand both[] = {a, b};
  DType t = v.common(both);
  Writer w(v, loc, t);
  Value x = v.to(a, t);
  Value y = v.to(b, t);
  Value quotient = w.op(Op::div, x, y);
  Value left;
  if (t == DType::i64) {
    left = w.op(Op::sub, x, w.op(Op::mul, quotient, y));
  } else {  // rounded once, which changes nothing if the quotient has fewer digits than the type
    left = w.op(Op::fma, w.op(Op::neg, w.op(Op::floor, quotient)), y, x);
  }
  Value zero = t == DType::i64 ? v.c.i64(0) : w.constant(0);
  Value divisor_is_negative = w.op(Op::lt, y, zero);
  Value other_sign = w.op(Op::bit_xor, w.op(Op::lt, left, zero), divisor_is_negative);
  Value is_over = w.op(Op::bit_and, w.op(Op::ne, left, zero), other_sign);
  return {loc, w.choose(is_over, w.op(Op::add, left, y), left), {}};
}

}  // namespace stepfuse::formula
