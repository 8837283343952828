// Formulas of extreme shapes: deep, wide, long, and functions that call functions. Each gives a
// step, or an error with its position, on a small stack and in little processor time.
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/error.hpp>
#include <stepfuse/recipes.hpp>

#include "tests/support/messages.hpp"
#include "tests/support/processor_time.hpp"
#include "tests/support/small_stack.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

std::string repeat(const std::string& part, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += part;
  return out;
}

std::string numbered(const std::function<std::string(std::string)>& part, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += part(std::to_string(i));
  return out;
}

// The error of making a step of the formula, or "".
std::string said_of(const std::string& body) {
  std::string said;
  ProcessorTime time;
  on_small_stack([&] {
    try {
      make_recipe(parse_optimizer("optimizer o {\n" + body + "\n}", "o.opt"), {});
    } catch (const Error& e) {
      said = e.what();
    }
  });
  CHECK(time.sorts() < 70);  // usually below 2
  CHECK((said.empty() || said.starts_with("o.opt:")));
  return said;
}

// `count` functions with `body`, in which $ calls the previous function.
std::string nested_defs(int count, const std::string& body) {
  std::string text = "def fn0(x) = x\n";
  for (int i = 1; i <= count; ++i) {
    std::string inner = "fn" + std::to_string(i - 1) + "(x)";
    std::string line = body;
    for (size_t at = 0; (at = line.find('$', at)) != std::string::npos;) {
      line.replace(at, 1, inner);
      at += inner.size();
    }
    text += "def fn" + std::to_string(i) + "(x) = " + line + "\n";
  }
  return text + "w = w - fn" + std::to_string(count) + "(g)";
}

}  // namespace

TEST_CASE("formula: a sum of hundreds of terms is a step, one of thousands is refused") {
  CHECK(said_of("w = w - (g" + repeat("+g", 300) + ")") == "");
  for (int terms : {5000, 20'000, 500'000}) {
    for (const char* term : {"+g", "-g", "*g", "/g", "&&g", "==g", "<g", "^1", "?g:g", "-(-g)"}) {
      CAPTURE(term);
      CHECK(has(said_of("w = w - (g" + repeat(term, terms) + ")"), "name its parts with let"));
    }
  }
}

TEST_CASE("formula: what nests deeply is refused") {
  for (const char* open : {"(", "-", "!", "sqrt(", "f(g, ", "g^", "g^-", "g ? ", "g ? g : ", "@"}) {
    CAPTURE(open);
    for (int depth : {201, 5000, 1'000'000}) CHECK(said_of("w = " + repeat(open, depth)) != "");
  }
  CHECK(has(said_of(repeat("if amsgrad {", 300'000)), "nested more than"));
  CHECK(has(said_of("if amsgrad {}" + repeat(" else if amsgrad {}", 300'000)), "nested more than"));
}

TEST_CASE("formula: functions that call functions are counted") {
  CHECK(said_of(nested_defs(3, "$ + $")) == "");
  for (int depth : {20, 40, 300, 3000}) {
    for (const char* body :
         {"$ + $ + $", "min($, $)", "min($, fn0($))", "lerp($, $, 0.5)", "$ ? $ : $"}) {
      CAPTURE(depth);
      CAPTURE(body);
      CHECK(said_of(nested_defs(depth, body)) != "");
    }
  }
  // Calls that expand to no operation.
  CHECK(has(said_of("def p(x, y) = x\n" + nested_defs(30, "p($, $)")), "more than 50000"));
  CHECK(has(said_of(nested_defs(1000, "$")), "nested more than"));
  CHECK(said_of(nested_defs(100, "$")) == "");
}

TEST_CASE("formula: many statements, parameters and long names take time in proportion") {
  CHECK(said_of(numbered([](auto i) { return "let x" + i + " = g + " + i + "\n"; }, 500) +
                "w = w - (" + numbered([](auto i) { return "x" + i + " + "; }, 300) + "g)")
            .find("'x300' is never used") != std::string::npos);
  for (int count : {3000, 50'000}) {
    for (const char* head : {"let x", "hyper x", "moment x", "input x", "option x", "def x"}) {
      CAPTURE(head);
      std::string tail = std::string(head) == "def x" ? "(y) = y\n" : " = 1\n";
      if (std::string_view("moment x input x option x").find(head) != std::string_view::npos)
        tail = "\n";
      CHECK(said_of(numbered([&](auto i) { return head + i + tail; }, count) + "w = w - g") != "");
    }
  }
  std::string wide = numbered([](auto i) { return "x" + i + ", "; }, 50'000);
  CHECK(said_of("def f(" + wide + "y) = y\nw = w - f(g)") != "");
  CHECK(said_of("w = w - min(" + wide + "g)") != "");
  std::string name(1'000'000, 'n');
  CHECK(has(said_of("let " + name + " = g\nw = w - " + name), "it can have at most"));
}
