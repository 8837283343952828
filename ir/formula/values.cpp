// Converts values of a formula to a common type, and implements its operators. Knows ir and fmt.
#include "ir/formula/values.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ir/formula/elementary.hpp"

namespace stepfuse::formula {
namespace {

bool is_whole(double v) { return std::nearbyint(v) == v && std::abs(v) < 0x1p53; }

}  // namespace

DType Values::common(std::span<const Operand> operands, Granularity finest) {
  bool f64 = false;
  bool f32 = false;
  bool integer = false;
  bool fraction = false;
  for (const Operand& o : operands) {
    if (o.is_bool()) fail(o.loc, "this is true or false; a number is needed (write p ? a : b)");
    finest = join(finest, o.granularity());
    fraction = fraction || (o.literal && !is_whole(*o.literal));
    f64 = f64 || o.is(DType::f64);
    f32 = f32 || o.is(DType::f32);
    integer = integer || (!o.literal && is_integer(o.value.type().dtype));
  }
  if (is_of_elements(finest)) return DType::f32;
  if (f64 || (f32 && integer)) return DType::f64;
  if (f32) return DType::f32;
  return integer && !fraction ? DType::i64 : DType::f64;
}

Value Values::to(const Operand& o, DType t) {
  if (o.literal) {
    if (t == DType::f32) return c.f32(*o.literal);
    return t == DType::f64 ? c.f64(*o.literal) : c.i64(*o.literal);
  }
  if (o.value.type().dtype == t) return o.value;
  if (o.is_bool()) fail(o.loc, "this is true or false; a number is needed (write p ? a : b)");
  if (is_integer(t)) {
    fail(o.loc,
         "this is not a whole number, but the state is one; a literal is whole only if it meets a "
         "whole number: write p ? k + 1 : k - 1, not k + (p ? 1 : -1)");
  }
  if (t != DType::f32) return made(o.loc, c.b.cast(o.value, t)).value;
  // Rounded once, even if it is used with elements several times.
  Value& known = narrowed_[o.value.id];
  if (known) return known;  // `!known` would be an instruction
  std::string name = c.b.program().names[static_cast<size_t>(o.value.id)];
  return known = c.narrow(o.value).named(name + "_f32");
}

Value Values::to_bool(const Operand& o) {
  if (!o.is_bool()) fail(o.loc, "this is a number; a condition is needed, as in x > 0");
  return o.value;
}

Operand Values::made(SourceLoc loc, Value v) {
  const Program& p = c.b.program();
  if (p[v.id].op != Op::constant) {
    v.named(fmt::format("{}_{}", target, info(p[v.id].op).name));
  }
  return {loc, v, {}};
}

Operand Values::number(SourceLoc loc, Op op, std::span<const Operand> operands, bool as_real) {
  DType t = common(operands);
  if (as_real) t = real(t);
  std::vector<Value> v;
  for (const Operand& o : operands) v.push_back(to(o, t));
  switch (v.size()) {
    case 1:
      return made(loc, c.b.apply(op, {v[0]}));
    case 2:
      return made(loc, c.b.apply(op, {v[0], v[1]}));
    default:
      return made(loc, c.b.apply(op, {v[0], v[1], v[2]}));
  }
}

Operand Values::compare(const Expr& e, const Operand& a, const Operand& b) {
  const Operand both[] = {a, b};
  DType t = common(both);
  Value x = to(a, t);
  Value y = to(b, t);
  if (e.text == "<") return made(e.loc, x < y);
  if (e.text == "<=") return made(e.loc, x <= y);
  if (e.text == ">") return made(e.loc, y < x);
  if (e.text == ">=") return made(e.loc, y <= x);
  Operand equal = made(e.loc, eq(x, y));
  return e.text == "==" ? equal : made(e.loc, !equal.value);
}

Operand Values::choose(SourceLoc loc, const Operand& p, const Operand& a, const Operand& b) {
  Value condition = to_bool(p);
  if (a.is_bool() && b.is_bool()) return made(loc, c.b.select(condition, a.value, b.value));
  const Operand both[] = {a, b};
  DType t = common(both, p.granularity());
  Value x = to(a, t);
  return made(loc, c.b.select(condition, x, to(b, t)));
}

// A literal power of a per-element value becomes multiplications, in powi's order.
Operand Values::power(SourceLoc loc, const Operand& base, const Operand& exponent) {
  bool whole =
      exponent.literal ? is_whole(*exponent.literal) : is_integer(exponent.value.type().dtype);
  if (!whole)
    fail(exponent.loc,
         "the exponent of ^ must be a whole number, as in t or 2; for others write pow(a, b)");
  if (!is_of_elements(join(base.granularity(), exponent.granularity()))) {
    Value b = to(base, real(common({&base, 1})));
    Value e = exponent.literal ? c.i64(*exponent.literal) : exponent.value;
    return made(loc, powi(b, e));
  }
  if (!exponent.literal || *exponent.literal < 1 || *exponent.literal > 64) {
    fail(exponent.loc, "the exponent of a per-element value must be a number from 1 to 64");
  }
  Operand square = base;
  std::optional<Operand> result;
  for (auto n = static_cast<int>(*exponent.literal); n != 0; n >>= 1) {
    const Operand pair[] = {result.value_or(square), square};
    if ((n & 1) != 0) result = result ? number(loc, Op::mul, pair) : square;
    const Operand twice[] = {square, square};
    if (n > 1) square = number(loc, Op::mul, twice);
  }
  return *result;
}

Operand Values::binary(const Expr& e, const Operand& a, const Operand& b) {
  const Operand both[] = {a, b};
  if (e.text == "&&") return made(e.loc, to_bool(a) & to_bool(b));
  if (e.text == "||") return made(e.loc, to_bool(a) | to_bool(b));
  if (e.text == "+") return number(e.loc, Op::add, both);
  if (e.text == "-") return number(e.loc, Op::sub, both);
  if (e.text == "*") return number(e.loc, Op::mul, both);
  if (e.text == "/") return number(e.loc, Op::div, both, true);
  if (e.text == "%") return remainder(*this, e.loc, a, b);
  if (e.text == "^") return power(e.loc, a, b);
  return compare(e, a, b);
}

Operand Values::unary(const Expr& e, const Operand& a) {
  if (e.text == "!") return made(e.loc, !to_bool(a));
  if (a.literal) return {e.loc, {}, -*a.literal};
  return number(e.loc, Op::neg, {&a, 1});
}

Value Values::count(Granularity of) {
  Value& known = counts_[number_of(of)];
  if (known) return known;
  if (of == per::row) return known = columns();
  if (of == per::column) return known = rows();
  if (of == per::tensor) return known = c.b.element_count().named("elements");
  Value none = c.i64(0);
  Value all = count(per::tensor);
  Value own = c.b.select(c.b.present().named("here"), all, none);
  known = c.b.reduce(Op::reduce_add, own.named("elements_here"), of);
  return known.named(fmt::format("{}_elements", info(of).name));
}

Value Values::rows() {
  if (rows_) return rows_;
  Value own_columns = columns();
  return rows_ = (count(per::tensor) / own_columns).named("rows");
}
Value Values::columns() {
  return columns_ ? columns_ : columns_ = c.b.column_count().named("columns");
}

}  // namespace stepfuse::formula
