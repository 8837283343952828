// Values of a formula, and the rule by which they meet: which type an operation computes in. Knows ir
// only.
//
// In the element domain everything is f32: what comes from a coarser one is rounded to it once, where
// it meets an element. Coarser values compute in f64 where one of them is f64 (arguments are), in f32
// where all are f32, in i64 where all are integers. A literal takes its neighbours' type.
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
  std::optional<double> literal;  // then there is no value yet

  Granularity domain() const { return literal ? per::step : value.type().at; }
  bool is(DType t) const { return !literal && value.type().dtype == t; }
  bool is_bool() const { return is(DType::boolean); }
};

class Values {
 public:
  Values(const Formula& formula, recipes::Context& context) : formula(formula), c(context) {}

  // The common type of numbers; `finest` is of what else takes part.
  DType common(std::span<const Operand> operands, Granularity finest = per::step);
  static DType real(DType t) { return is_integer(t) ? DType::f64 : t; }

  Value to(const Operand& o, DType t);
  Value to_bool(const Operand& o);
  // Names a new value after what is being computed and the op: %update_div.
  Operand made(SourceLoc loc, Value v);

  Operand number(SourceLoc loc, Op op, std::span<const Operand> operands, bool as_real = false);
  Operand compare(const Expr& e, const Operand& a, const Operand& b);
  Operand choose(SourceLoc loc, const Operand& p, const Operand& a, const Operand& b);
  Operand power(SourceLoc loc, const Operand& base, const Operand& exponent);
  Operand binary(const Expr& e, const Operand& a, const Operand& b);
  Operand unary(const Expr& e, const Operand& a);
  // How many elements the tensor has, or the present ones of the group or step; i64.
  Value count(Granularity of);
  // How many rows the full tensor has, and how many elements each of them; i64.
  Value rows();
  Value columns();

  [[noreturn]] void fail(SourceLoc loc, std::string_view message) const {
    formula.fail(loc, message);
  }

  const Formula& formula;
  recipes::Context& c;
  std::string target;  // what is being computed

 private:
  std::map<ValueId, Value> narrowed_;
  std::map<uint32_t, Value> counts_;  // by number_of()
  Value rows_;
  Value columns_;
};

// The built-in function of that name, applied; nothing if there is none. Throws for a wrong count.
std::optional<Operand> call_builtin(Values& v, const Expr& call, std::span<const Operand> operands);
bool is_builtin(std::string_view name);
std::vector<std::string> builtin_names();

// sum, mean, max, min, any, norm of `x` in a coarser domain; nothing if there is none of that name.
std::optional<Operand> call_reduction(Values& v, const Expr& call, const Operand& x,
                                      Granularity to);
bool is_reduction(std::string_view name);

}  // namespace stepfuse::formula
