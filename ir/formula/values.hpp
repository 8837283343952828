// Values of a formula, and the rule for the type in which an operation computes. Knows ir only.
//
// Per-element values are f32. A coarser value is rounded to f32 once, when an operation combines it with a
// per-element value. Operations on coarser values compute in f64 if an operand is f64 (arguments are), in
// f32 if all are f32, and in i64 if all are integers. A literal takes the type of the other operands.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "ir/formula/ast.hpp"
#include "ir/recipes/context.hpp"

namespace stepfuse::formula {

struct Operand {
  SourceLoc loc;
  Value value;
  std::optional<double> literal;  // if set, there is no instruction yet

  Granularity granularity() const { return literal ? per::step : value.type().at; }
  bool is(DType t) const { return !literal && value.type().dtype == t; }
  bool is_bool() const { return is(DType::boolean); }
};

class Values {
 public:
  Values(const Formula& formula, recipes::Context& context) : formula(formula), c(context) {}

  // Returns the common type of numbers. `finest` is the granularity of the operation's other operands.
  DType common(std::span<const Operand> operands, Granularity finest = per::step);
  static DType real(DType t) { return is_integer(t) ? DType::f64 : t; }

  Value to(const Operand& o, DType t);
  Value to_bool(const Operand& o);
  // Names a new value after the assigned name and the op: %update_div.
  Operand made(SourceLoc loc, Value v);

  Operand number(SourceLoc loc, Op op, std::span<const Operand> operands, bool as_real = false);
  Operand compare(const Expr& e, const Operand& a, const Operand& b);
  Operand choose(SourceLoc loc, const Operand& p, const Operand& a, const Operand& b);
  Operand power(SourceLoc loc, const Operand& base, const Operand& exponent);
  Operand binary(const Expr& e, const Operand& a, const Operand& b);
  Operand unary(const Expr& e, const Operand& a);
  // Returns the number of elements of the tensor, or of all present tensors in the group or step, as i64.
  Value count(Granularity of);
  // Returns the number of rows of the full tensor, or the number of elements per row, as i64.
  Value rows();
  Value columns();

  [[noreturn]] void fail(SourceLoc loc, std::string_view message) const {
    formula.fail(loc, message);
  }

  const Formula& formula;
  recipes::Context& c;
  std::string target;  // the name that is being assigned

 private:
  std::map<ValueId, Value> narrowed_;
  std::map<uint32_t, Value> counts_;  // keyed by number_of()
  Value rows_;
  Value columns_;
};

// Applies the built-in function of that name; nothing if there is none. Throws for a wrong number of
// operands.
std::optional<Operand> call_builtin(Values& v, const Expr& call, std::span<const Operand> operands);
bool is_builtin(std::string_view name);
std::vector<std::string> builtin_names();

// Applies sum, mean, max, min, any or norm to `x`, with a coarser result; nothing if there is no such
// reduction.
std::optional<Operand> call_reduction(Values& v, const Expr& call, const Operand& x,
                                      Granularity to);
bool is_reduction(std::string_view name);

}  // namespace stepfuse::formula
