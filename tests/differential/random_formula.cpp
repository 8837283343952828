// Random optimizer formulas as text. Knows fmt.
#include "tests/differential/random_formula.hpp"

#include <vector>

#include <fmt/format.h>

#include "tests/support/rng.hpp"

namespace stepfuse::testing {
namespace {

class Writer {
 public:
  explicit Writer(uint64_t seed) : rng_(seed, "formula") {}

  std::string formula() {
    declare();
    int lets = rng_.between(1, 4);
    for (int i = 0; i < lets; ++i) {
      std::string name = fmt::format("x{}", i);
      line("let {} = {}", name, number(3));
      names_.push_back(name);
    }
    for (const std::string& m : moments_) {
      bool guarded = rng_.chance(30);
      line("{} = {}{}", m, number(3), guarded ? fmt::format(" where {}", condition(1)) : "");
    }
    for (const std::string& s : states_) line("{} = {}", s, reduced(2));
    line("report size = {}", reduced(2));
    // All remaining names are read here, so that nothing is unused.
    std::string all;
    for (const std::string& n : names_) all += fmt::format(" + {} * g", n);
    line("w = {} - f({}, g){}", rng_.chance(80) ? "w" : "weight", number(3), all);
    return fmt::format("optimizer random \"\" {{\n{}}}\n", text_);
  }

 private:
  template <class... T>
  void line(fmt::format_string<T...> format, T&&... parts) {
    text_ += "  " + fmt::format(format, std::forward<T>(parts)...) + "\n";
  }

  void declare() {
    int hypers = rng_.between(1, 3);
    for (int i = 0; i < hypers; ++i) {
      names_.push_back(fmt::format("h{}", i));
      line("hyper h{} = {}", i, literal());
    }
    if (rng_.chance(60)) {
      line("hyper lr = 0.01");
      line("decay {} = 0.1", rng_.pick({"l2", "decoupled"}));
      names_.emplace_back("lr");
    }
    int moments = rng_.between(0, 2);
    for (int i = 0; i < moments; ++i) {
      moments_.push_back(fmt::format("m{}", i));
      line("moment m{}{}{}", i, rng_.pick({"", " : f32"}), rng_.pick({"", "", " = w"}));
    }
    int states = rng_.between(0, 2);
    for (int i = 0; i < states; ++i) {
      states_.push_back(fmt::format("s{}", i));
      line("state s{} : tensor{} = {}", i, rng_.pick({"", " f32"}), literal());
    }
    for (const std::string& m : moments_) names_.push_back(m);
    for (const std::string& s : states_) names_.push_back(s);
    std::string p =
        rng_.pick({"x * y - 0.5", "lerp(x, y, 0.25)", "max(x, -y)", "x / (abs(y) + 1)"});
    line("def f(x, y) = {}", p);
  }

  std::string literal() { return rng_.pick({"0.5", "1", "3", "0.1", "1e-3", "2.5", "0"}); }

  std::string leaf() {
    switch (rng_.weighted({4, 3, 2, 1, 2})) {
      case 0:
        return rng_.pick(names_);
      case 1:
        return "g";
      case 2:
        return rng_.pick({"w", "weight", "gradient"});
      case 3:
        return "t";
      default:
        return literal();
    }
  }

  std::string number(int depth) {
    if (depth == 0) return leaf();
    auto part = [&] { return number(depth - 1); };
    switch (rng_.weighted({3, 8, 2, 4, 2, 2, 1, 1})) {
      case 0:
        return leaf();
      case 1:
        return fmt::format("({} {} {})", part(),
                           rng_.pick({"+", "-", "*", "/", "+", "-", "*", "/", "%"}), part());
      case 2:
        return fmt::format("-{}", part());
      case 3:
        return call(depth - 1);
      case 4:
        return fmt::format("({} ? {} : {})", condition(depth - 1), part(), part());
      case 5:
        return fmt::format("({})^{}", part(), rng_.between(1, 4));
      case 6:
        return reduced(depth - 1);
      default:
        return fmt::format("f({}, {})", part(), part());
    }
  }

  std::string call(int depth) {
    auto part = [&] { return number(depth); };
    switch (rng_.below(5)) {
      case 0:
        return fmt::format("{}({})",
                           rng_.pick({"abs", "sqrt", "rcp", "f32", "sign", "floor", "rint", "exp2",
                                      "log2", "exp", "log", "tanh"}),
                           part());
      case 1:
        return fmt::format("{}({}, {})", rng_.pick({"min", "max"}), part(), part());
      case 2:
        return fmt::format("{}({}, {}, {})", rng_.pick({"fma", "clamp"}), part(), part(), part());
      case 3:
        return fmt::format("pow({}, t)", rng_.pick({"0.9", "h0"}));
      default:
        return fmt::format("{}({}, {}, {})", rng_.pick({"lerp", "ema_square"}), part(), part(),
                           rng_.pick({"0.5", "0.9", "h0", "(1 - h0)"}));
    }
  }

  // Contains g, so that the operand is per element.
  std::string reduced(int depth) {
    switch (rng_.weighted({8, 1, 1})) {
      case 0:
        return fmt::format("{}({} * g, tensor)", rng_.pick({"sum", "mean", "norm", "max", "min"}),
                           number(depth));
      case 1:
        return fmt::format("{}({} > g, tensor)", rng_.pick({"sum", "mean"}), number(depth));
      default:
        return fmt::format("count({})", rng_.pick({"tensor", "group", "step"}));
    }
  }

  std::string condition(int depth) {
    if (depth > 0 && rng_.chance(30)) {
      return fmt::format("({} {} {})", condition(depth - 1), rng_.pick({"&&", "||"}),
                         condition(depth - 1));
    }
    if (rng_.chance(10)) return fmt::format("!isfinite({})", number(depth));
    const char* sign = rng_.pick({"<", "<=", ">", ">=", "==", "!="});
    return fmt::format("({} {} {})", number(depth), sign, number(depth));
  }

  Rng rng_;
  std::string text_;
  std::vector<std::string> names_;
  std::vector<std::string> moments_;
  std::vector<std::string> states_;
};

}  // namespace

std::string random_formula(uint64_t seed) { return Writer(seed).formula(); }

}  // namespace stepfuse::testing
