// The syntax tree of a formula: an optimizer's declarations and assignments. Knows ir only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <stepfuse/error.hpp>
#include <stepfuse/recipe_options.hpp>

namespace stepfuse::formula {

// Limits of a formula, each far beyond any optimizer. They keep every recursion over a tree within a small
// thread's stack, and the work on a text in proportion to its length.
constexpr int kMaxNesting = 200;  // nesting of parentheses, calls, signs and blocks in the text
constexpr int kMaxHeight =
    400;  // nodes from an expression's root to its deepest leaf, with calls inlined
constexpr int kMaxNodes = 20000;      // expressions, statements and parameters in the text
constexpr int kMaxEvaluated = 50000;  // expressions that are evaluated, with calls inlined
constexpr int kMaxOperations = 4000;  // instructions of the resulting step
constexpr size_t kMaxName = 200;      // characters

struct Expr {
  enum class Kind : uint8_t { number, name, unary, binary, choice, call };
  Kind kind = Kind::number;
  SourceLoc loc;
  std::string text;  // a name, an operator or a called function
  double number = 0;
  int height = 1;  // at most kMaxHeight
  std::vector<Expr> operands;
};

struct Statement {
  enum class Kind : uint8_t {
    hyper,   // name, number
    moment,  // name, dtype (by default that of the moments), from_weight
    input,   // name: an f32 array of the caller's that the step only reads
    output,  // name, dtype = value: an array that the step only writes
    state,   // name, dtype, granularity, number
    option,  // name
    let,     // name = value
    def,     // name, params, body (only lets), value
    assign,  // name = value where guard
    report,  // name = value
    refuse,  // help
    branch,  // if value: body, else: otherwise
  };
  Kind kind = Kind::let;
  SourceLoc loc;
  std::string name;
  std::string help;  // meaning of the declaration, or the message of a refusal
  double number = 0;
  std::optional<DType> dtype;
  Granularity at = per::tensor;
  bool from_weight = false;
  std::optional<Expr> value;
  std::optional<Expr> guard;
  std::vector<std::string> params;
  std::vector<Statement> body;
  std::vector<Statement> otherwise;
};

struct Formula {
  std::string name;
  std::string help;
  std::string file;
  std::string text;
  std::string formula_text;  // the text that contains the statements: its base's, if it has one
  WeightDecay decay = WeightDecay::none;
  double weight_decay = 0;  // the default of argument weight_decay
  bool caution = false;     // option caution is always on
  std::vector<Statement> body;

  [[noreturn]] void fail(SourceLoc loc, std::string_view message) const {
    throw Error(ErrorKind::parse, render_at(file, formula_text, loc, message), loc);
  }
};

}  // namespace stepfuse::formula
