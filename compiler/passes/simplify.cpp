// Pass: applies identities that hold for every input, including NaN, infinities, subnormals and -0. Knows
// ir.
//
// These are not identities: x + 0 (-0 becomes +0), 0 - x (0 - 0 is not -0), x * 0, x - x, x / x (NaN, inf),
// not (a < b) as b <= a (NaN), a * rcp b as a / b (rounds twice).
#include <algorithm>
#include <cmath>
#include <optional>
#include <variant>

#include "compiler/passes/passes.hpp"
#include "compiler/passes/rewriter.hpp"
#include "ir/semantics/fp_env.hpp"
#include "ir/semantics/semantics.hpp"

namespace stepfuse {
namespace {

// The replacement of an instruction: an existing value, or a simpler instruction.
using Simpler = std::optional<std::variant<ValueId, Inst>>;

class Simplifier {
 public:
  explicit Simplifier(const Program& from) : from_(from), r_(from) {}

  Program run() {
    int effects = 0;
    for (const Inst& i : from_.insts) effects += i.op == Op::store || i.op == Op::write ? 1 : 0;
    for (current_ = 0; current_ < from_.size(); ++current_) {
      Inst inst = r_.remapped(current_);
      if (inst.predicate != kNoValue && is_bool(inst.predicate, true)) inst.predicate = kNoValue;
      // A program keeps at least one effect. Each report keeps its write, and each buffer that another one arranges its
      // store, even if it never happens.
      bool never = inst.predicate != kNoValue && is_bool(inst.predicate, false);
      bool reports = inst.op == Op::write && from_.states[static_cast<size_t>(inst.slot)].report;
      if (never && effects > 1 && !reports && !is_arranged(inst)) {
        --effects;
        continue;
      }
      place(inst);
    }
    return r_.finish();
  }

 private:
  bool is_arranged(const Inst& inst) const {
    return inst.op == Op::store &&
           std::any_of(from_.buffers.begin(), from_.buffers.end(),
                       [&](const Buffer& b) { return b.order.any() && b.arranges == inst.slot; });
  }

  void place(Inst inst) {
    for (Simpler s = simpler(inst); s; s = simpler(inst)) {
      if (const ValueId* value = std::get_if<ValueId>(&*s)) return r_.replace(current_, *value);
      inst = std::get<Inst>(*s);
    }
    r_.emit(current_, inst);
  }

  Simpler simpler(const Inst& i) {
    switch (i.op) {
      case Op::neg:
        if (op(i, 0) == Op::neg) return same(i, inner(i, 0));
        break;
      case Op::abs:
        if (op(i, 0) == Op::abs) return same(i, i.operands[0]);
        if (op(i, 0) == Op::neg) return make(i, Op::abs, inner(i, 0));
        break;
      case Op::isfinite:
        if (op(i, 0) == Op::neg || op(i, 0) == Op::abs) return make(i, Op::isfinite, inner(i, 0));
        break;
      case Op::logical_not:
        if (op(i, 0) == Op::logical_not) return same(i, inner(i, 0));
        break;
      case Op::add:
        return add(i);
      case Op::sub:
        return sub(i);
      case Op::mul:
        return mul(i);
      case Op::div:
        return div(i);
      case Op::min:
      case Op::max:
        return extremum(i);
      case Op::powi:
        return powi(i);
      case Op::fma:
        return fma(i);
      case Op::eq:
      case Op::le:
        // A float may be NaN, which is not equal to itself.
        if (i.operands[0] == i.operands[1] && is_integer(type(i, 0).dtype)) return truth(i, true);
        break;
      case Op::lt:
        if (i.operands[0] == i.operands[1]) return truth(i, false);
        break;
      case Op::bit_and:
      case Op::bit_or:
        return logic(i);
      case Op::select:
        return select(i);
      default:
        break;
    }
    return {};
  }

  Simpler add(const Inst& i) {
    auto [a, b, c] = i.operands;
    for (auto [x, zero] : {std::pair{a, b}, std::pair{b, a}}) {
      if (is_number(zero, -0.0)) return same(i, x);
    }
    if (op(i, 1) == Op::neg) return make(i, Op::sub, a, inner(i, 1));
    if (op(i, 0) == Op::neg) return make(i, Op::sub, b, inner(i, 0));
    return {};
  }

  Simpler sub(const Inst& i) {
    auto [a, b, c] = i.operands;
    if (is_number(b, 0.0)) return same(i, a);
    if (is_number(a, -0.0)) return make(i, Op::neg, b);
    if (op(i, 1) == Op::neg) return make(i, Op::add, a, inner(i, 1));
    if (a == b && is_integer(i.type.dtype)) return zero_of(i);
    return {};
  }

  Simpler mul(const Inst& i) {
    auto [a, b, c] = i.operands;
    for (auto [x, factor] : {std::pair{a, b}, std::pair{b, a}}) {
      if (is_number(factor, 1)) return same(i, x);
      if (is_number(factor, -1)) return make(i, Op::neg, x);
      if (is_integer(i.type.dtype) && is_number(factor, 0)) return zero_of(i);
    }
    if (op(i, 0) == Op::neg && op(i, 1) == Op::neg) {
      return make(i, Op::mul, inner(i, 0), inner(i, 1));
    }
    return {};
  }

  Simpler div(const Inst& i) {
    auto [a, b, c] = i.operands;
    if (is_number(b, 1)) return same(i, a);
    if (is_number(b, -1)) return make(i, Op::neg, a);
    if (is_integer(i.type.dtype)) return {};
    if (is_number(a, 1)) return make(i, Op::rcp, b);
    // Multiply by the reciprocal of a power of two, unless that overflows.
    const Inst& divisor = r_.program()[b];
    if (divisor.op != Op::constant) return {};
    DType t = i.type.dtype;
    Bits reciprocal = sem::evaluate(Op::rcp, t, t, divisor.literal, {}, {});
    bool exact = is_power_of_two(divisor.literal, t) && is_power_of_two(reciprocal, t);
    if (!exact) return {};
    return make(i, Op::mul, a, r_.constant(current_, t, reciprocal));
  }

  Simpler extremum(const Inst& i) {
    auto [a, b, c] = i.operands;
    if (a == b) return same(i, a);
    if (is_integer(i.type.dtype)) return {};
    double neutral = i.op == Op::min ? HUGE_VAL : -HUGE_VAL;
    for (auto [x, bound] : {std::pair{a, b}, std::pair{b, a}}) {
      if (is_number(bound, neutral)) return same(i, x);
    }
    return {};
  }

  // Handles exponents whose loop is one instruction: r = 1 * b, r = 1 * (b * b), 1 / (1 * b).
  Simpler powi(const Inst& i) {
    auto [base, exponent, c] = i.operands;
    if (is_number(exponent, 1)) return same(i, base);
    if (is_number(exponent, 2)) return make(i, Op::mul, base, base);
    if (is_number(exponent, -1)) return make(i, Op::rcp, base);
    return {};
  }

  Simpler fma(const Inst& i) {
    auto [a, b, c] = i.operands;
    if (is_number(c, -0.0)) return make(i, Op::mul, a, b);
    if (is_number(b, 1)) return make(i, Op::add, a, c);
    if (is_number(a, 1)) return make(i, Op::add, b, c);
    return {};
  }

  Simpler logic(const Inst& i) {
    auto [a, b, c] = i.operands;
    bool neutral = i.op == Op::bit_and;
    if (a == b) return same(i, a);
    for (auto [x, constant] : {std::pair{a, b}, std::pair{b, a}}) {
      if (is_bool(constant, neutral)) return same(i, x);
      if (is_bool(constant, !neutral)) return truth(i, !neutral);
    }
    return {};
  }

  Simpler select(const Inst& i) {
    auto [condition, a, b] = i.operands;
    if (a == b) return same(i, a);
    if (is_bool(condition, true)) return same(i, a);
    if (is_bool(condition, false)) return same(i, b);
    if (is_bool(a, true) && is_bool(b, false)) return same(i, condition);
    if (is_bool(a, false) && is_bool(b, true)) return make(i, Op::logical_not, condition);
    if (op(i, 0) == Op::logical_not) return make(i, Op::select, inner(i, 0), b, a);
    return {};
  }

  // --- replacements

  // Returns `value` unless its type differs: a reduction of a coarser value would combine fewer elements.
  Simpler same(const Inst& i, ValueId value) const {
    if (!(r_.program()[value].type == i.type)) return {};
    return value;
  }
  static Simpler make(const Inst& i, Op op, ValueId a, ValueId b = kNoValue, ValueId c = kNoValue) {
    return Inst{.op = op, .type = i.type, .operands = {a, b, c}};
  }
  // Constants are per step, so only a per-step result can become one.
  static Simpler truth(const Inst& i, bool value) {
    if (i.type.at != per::step) return {};
    return Inst{.op = Op::constant, .type = i.type, .literal = Bits::of(value)};
  }
  static Simpler zero_of(const Inst& i) {
    if (i.type.at != per::step) return {};
    return Inst{.op = Op::constant, .type = i.type};
  }

  // --- properties of operands

  const Inst& operand(const Inst& i, size_t k) const { return r_.program()[i.operands[k]]; }
  Op op(const Inst& i, size_t k) const { return operand(i, k).op; }
  Type type(const Inst& i, size_t k) const { return operand(i, k).type; }
  ValueId inner(const Inst& i, size_t k) const { return operand(i, k).operands[0]; }

  bool is_bool(ValueId v, bool wanted) const {
    const Inst& i = r_.program()[v];
    return i.op == Op::constant && i.type.dtype == DType::boolean && i.literal.b() == wanted;
  }
  // Whether `v` is a constant with exactly these bits. Integers have no -0, so there it means 0.
  bool is_number(ValueId v, double wanted) const {
    const Inst& i = r_.program()[v];
    if (i.op != Op::constant) return false;
    switch (i.type.dtype) {
      case DType::i32:
        return i.literal.i32() == wanted;
      case DType::i64:
        return std::abs(wanted) <= 2 && i.literal.i64() == static_cast<int64_t>(wanted);
      case DType::f32:
        return i.literal == Bits::of(static_cast<float>(wanted));
      case DType::f64:
        return i.literal == Bits::of(wanted);
      default:
        return false;
    }
  }
  static bool is_power_of_two(Bits v, DType t) {
    double value = t == DType::f32 ? v.f32() : v.f64();
    int exponent = 0;
    return std::isfinite(value) && std::abs(std::frexp(value, &exponent)) == 0.5;
  }

  const Program& from_;
  Rewriter r_;
  ValueId current_ = kNoValue;
};

}  // namespace

Program simplify(const Program& program) {
  FpEnvGuard guard;
  return Simplifier(program).run();
}

}  // namespace stepfuse
