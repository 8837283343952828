// Formulas of random and of extreme shapes, and damaged ones: a clear error with its place, or a step that the
// formula in its one form makes, too. All on a small stack and in a short time. Knows ir.
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/error.hpp>
#include <stepfuse/recipes.hpp>

#include "ir/text/text_format.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/support/processor_time.hpp"
#include "tests/support/small_stack.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

std::string repeat(std::string_view part, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += part;
  return out;
}

std::string small_value(Rng& rng) {
  return rng.pick<std::string>({"g", "w", "lr", "2", "-g", "sqrt(g)", "(g + lr)", "t", "g ^ 2",
                                "norm(g, tensor)", "(g < 0 ? g : 1)", "g==w", "round(g, @grad)"});
}

// Mostly of a size that a step may have, at times far beyond it.
int many(Rng& rng) {
  return rng.chance(60) ? rng.between(0, 12)
                        : rng.pick({200, 399, 400, 401, 5000, 20'000, 200'000});
}

std::string chain(Rng& rng) {
  std::string sign = rng.pick<std::string>(
      {"+", "-", "*", "/", "^", "^-", "&&", "||", "==", "<", "?g:", "? g : ", ",", "(", ")"});
  return "g" + repeat(sign + small_value(rng), many(rng));
}

std::string nest(Rng& rng) {
  struct Pair {
    const char* open;
    const char* close;
  };
  auto [open, close] = rng.pick<Pair>({{"(", ")"},
                                       {"-", ""},
                                       {"!", ""},
                                       {"abs(", ")"},
                                       {"max(g, ", ")"},
                                       {"max(", ", g)"},
                                       {"g+(", ")*2"},
                                       {"f0(", ")"},
                                       {"g<0?", ":w"},
                                       {"g<0?w:", ""},
                                       {"sum(", ", tensor)"}});
  int depth = many(rng);
  return repeat(open, depth) + small_value(rng) + repeat(close, depth);
}

std::string value(Rng& rng) {
  if (rng.chance(30)) return small_value(rng);
  return rng.chance(50) ? chain(rng) : nest(rng);
}

// Each calls the one above it, some of them several times.
std::string functions(Rng& rng) {
  std::string text = "def f0(x) = " + rng.pick<std::string>({"x", "x + 1", "x * x", "g"}) + "\n";
  std::string body = rng.pick<std::string>(
      {"{0}(x)", "{0}(x) + {0}(x)", "{0}({0}(x))", "max({0}(x), {0}(x))", "lerp({0}(x), x, 0.5)",
       "{{ let y = {0}(x)\n return {0}(y) }}", "x > 0 ? {0}(x) : {0}(-x)", "f9(x)"});
  int count = rng.chance(70) ? rng.between(1, 12) : rng.pick({30, 300, 3000});
  for (int i = 1; i <= count; ++i) {
    bool block = body.starts_with("{{");
    text += fmt::format("def f{}(x){}", i, block ? " " : " = ") +
            fmt::format(fmt::runtime(body), fmt::format("f{}", i - 1)) + "\n";
  }
  return text + fmt::format("w = w - f{}(g) * lr\n", count);
}

std::string statements(Rng& rng) {
  std::string text;
  int count = many(rng);
  std::string head = rng.pick<std::string>({"let", "hyper", "moment", "state", "input", "option"});
  for (int i = 0; i < count; ++i) {
    text += fmt::format("{} x{}{}\n", head, i,
                        head == "let"     ? " = " + small_value(rng)
                        : head == "hyper" ? " = 1"
                        : head == "state" ? " : tensor"
                                          : "");
    if (rng.chance(50)) text += fmt::format("report r{} = x{} where g<0\n", i, i);
  }
  return text + "w = w - " + value(rng) + "\n";
}

std::string blocks(Rng& rng) {
  int count = many(rng);
  if (rng.chance(50)) return repeat("if o {\n", count) + "w = w - g\n" + repeat("}\n", count);
  return "if o { w = w - g }" + repeat(" else if !o { w = w + g }", count) + " else { w = g }\n";
}

std::string shape(Rng& rng) {
  std::string body = "hyper lr = 1\n";
  switch (rng.below(4)) {
    case 0:
      body += "def f0(x) = x\nlet u = " + value(rng) + "\nw = w - lr * u\n";
      break;
    case 1:
      body += functions(rng);
      break;
    case 2:
      body += statements(rng);
      break;
    default:
      body += "option o\n" + blocks(rng);
  }
  return "optimizer o {\n" + body + "}\n";
}

}  // namespace

TEST_CASE("fuzz: formulas") {
  std::vector<std::string> samples;
  for (const RecipeInfo& info : list_recipes()) {
    if (auto built_in = built_in_optimizer(info.name)) samples.emplace_back(built_in->text());
  }
  REQUIRE(samples.size() > 5);
  uint64_t accepted = 0;
  uint64_t tried = fuzz(1500, [&](Rng& rng) {
    std::string text = rng.chance(30) ? rng.pick(samples) : shape(rng);
    if (rng.chance(30)) text = damaged(text, rng);
    CAPTURE(text.substr(0, 2000));
    ProcessorTime time;
    on_small_stack([&] {
      try {
        Program program = make_recipe(parse_optimizer(text, "f.opt"));
        ++accepted;
        std::string formed = format_formula(text, "f.opt");
        CHECK(format_formula(formed, "f.opt") == formed);
        CHECK(make_recipe(parse_optimizer(formed, "f.opt")) == program);
      } catch (const Error& e) {
        std::string_view message = e.what();
        // An error of a `refuse` statement has no place.
        CHECK((e.kind() == ErrorKind::usage || message.find(".opt:") != std::string_view::npos));
        CHECK(message.size() < 20'000);
        CHECK(message.find('\x1b') == std::string_view::npos);
      }
    });
    CHECK(time.sorts() < 140);  // usually below 15
  });
  MESSAGE(accepted << " texts were still formulas");
  if (std::getenv("STEPFUSE_SEEDS") == nullptr) CHECK(accepted > tried / 10);
}
