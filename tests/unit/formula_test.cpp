// Formulas: their meaning, their combination with every option of the pipeline, and their errors.
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/error.hpp>
#include <stepfuse/printer.hpp>
#include <stepfuse/recipes.hpp>

#include "ir/semantics/interpreter.hpp"
#include "tests/support/messages.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

std::string step_of(const std::string& body, const RecipeOptions& options = {}) {
  return print(
      make_recipe(parse_optimizer("optimizer o \"\" {\n" + body + "\n}", "o.opt"), options));
}

std::string error_of(const std::string& body, const RecipeOptions& options = {}) {
  return message_of([&] { step_of(body, options); });
}

}  // namespace

TEST_CASE("a built-in optimizer is its file's text, and makes the same step from it") {
  int count = 0;
  for (const RecipeInfo& info : list_recipes()) {
    auto built_in = built_in_optimizer(info.name);
    if (!built_in) continue;
    CAPTURE(info.name);
    CHECK(built_in->name() == info.name);
    CHECK(built_in->text().find("optimizer " + std::string(info.name)) != std::string_view::npos);
    bool weighs = make_recipe(info.name).find_buffer("weight") >= 0;
    RecipeOptions options{.grad = DType::bf16, .master = weighs, .clip = Clip::l2};
    CHECK(make_recipe(parse_optimizer(built_in->text()), options) ==
          make_recipe(info.name, options));
    ++count;
  }
  CHECK(count >= 6);
}

TEST_CASE("a branch that is not taken is looked at, too") {
  const std::string head = "option amsgrad, centered\nhyper lr = 1\n";
  const std::string rest = "if centered { w = w - lr * sqrt(g) } else { w = w - lr * g }";
  CHECK(error_of(head + "if amsgrad { let u = g * lr\nw = w - u } else { " + rest + " }") ==
        "no error");
  auto said = [&](const std::string& branch) {
    return error_of(head + "if amsgrad { " + branch + " } else { " + rest + " }");
  };
  CHECK(has(said("w = w - lrr * g"), "uses value 'lrr', which does not exist; did you mean 'lr'?"));
  CHECK(has(said("w = w - sqr(g)"), "function 'sqr', which does not exist; did you mean 'sqrt'?"));
  CHECK(has(said("w = w - g where zeta > 1"),
            "a branch that these options do not take uses value 'zeta'"));
  CHECK(has(said("def f(x) = x + y\nw = w - f(g)"), "value 'y', which does not exist"));
  CHECK(has(said("if centred { w = w - g } else { w = w + g }"), "did you mean 'centered'?"));
  CHECK(has(said("if profile == torch { w = w - g } else { w = w + g }"),
            "'torch' is not a profile"));
  CHECK(has(error_of(head + "if amsgrad && centred { w = w - g } else { " + rest + " }"),
            "did you mean 'centered'?"));
  CHECK(said("w = w - lr * norm(round(g, @grad), tensor) / count(step)") == "no error");
}

TEST_CASE("coarse values compute in f64 and are rounded once where they meet an element") {
  std::string s = step_of("hyper lr = 1, x = 2\nw = w - lr * (1 - x) / 3 * g");
  CHECK(has(s, "%w_sub = sub %c_1_f64, %x : {f64}"));
  CHECK(has(s, "%w_mul = mul %lr, %w_sub : {f64}"));
  CHECK(has(s, "%w_div = div %w_mul, %c_3_f64 : {f64}"));
  CHECK(has(s, "%w_div_f32 = cast %w_div : {f32}"));
  CHECK(has(s, "%w_mul.1 = mul %w_div_f32, %grad : [f32]"));
}

TEST_CASE("f32() rounds first, and what meets it computes in f32") {
  std::string s = step_of("hyper lr = 1\nw = w - (1 - f32(lr)) * g");
  CHECK(has(s, "%lr_f32 = cast %lr : {f32}"));
  CHECK(has(s, "%w_sub = sub %c_1_f32, %lr_f32 : {f32}"));
}

TEST_CASE("a name means its value so far") {
  std::string s = step_of("moment m\nlet before = m\nm = m + g\nw = w - m * before");
  CHECK(has(s, "%m = add %m_in, %grad : [f32]"));
  CHECK(has(s, "%w_mul = mul %m, %m_in : [f32]"));
  CHECK(has(step_of("moment m\nm = g where g > 0\nw = w - m"),
            "%m_now = select %m_lt, %grad, %m_in"));
}

TEST_CASE("powers of elements are multiplied out, those of numbers are powi") {
  CHECK(has(step_of("w = w - g^3"), "%w_mul.1 = mul %grad, %w_mul : [f32]"));
  CHECK(has(step_of("hyper b = 0.9\nw = w - b^t * g"), "powi %b, %t : <f64>"));
  CHECK(has(step_of("hyper b = 0.9\nw = w - -b^2 * g"), "%w_neg = neg %w_powi : {f64}"));
}

TEST_CASE("what multiplies binds before what adds, from the left") {
  std::string s = step_of("w = w - g - g * g / g");
  CHECK(has(s, "%w_sub = sub %w, %grad"));
  CHECK(has(s, "%w_mul = mul %grad, %grad"));
  CHECK(has(s, "%w_div = div %w_mul, %grad"));
  CHECK(has(s, "%w_new = sub %w_sub, %w_div"));
}

TEST_CASE("reductions, states and reports of a formula") {
  std::string s = step_of(
      "state scale_sum : tensor f32 = 1\n"
      "let n = norm(w, tensor)\nreport weight_norm = n\nscale_sum = scale_sum + n\n"
      "let any_big = any(g > 100, step)\nw = any_big ? w : w - scale_sum * g");
  CHECK(has(s, "state @scale_sum : <f32> = 1"));
  CHECK(has(s, "report @weight_norm : <f32>"));
  CHECK(has(s, "reduce_add %n_mul : <f32>"));
  CHECK(has(s, "reduce_any %any_big_lt : bool"));
}

TEST_CASE("counts and means are per tensor, or over the present ones of a group or the step") {
  Program p = make_recipe(parse_optimizer(
      "optimizer o \"\" {\nreport of_tensor = mean(g, tensor)\nreport of_group = mean(g, group)\n"
      "report of_step = mean(g, step)\nreport positive = mean(g > 0, tensor)\n"
      "report how_many = sum(g > 0, step)\nreport elements = count(group)\nw = w - g\n}",
      "o.opt"));
  float g[3][2] = {{1, 2}, {-6, 0}, {100, 100}};
  float w[3][2] = {};
  StepData data;
  for (int t = 0; t < 3; ++t) {
    data.tensors.push_back({.size = 2, .present = t < 2, .data = {g[t], w[t]}});
    data.tensors.back().dtypes = {DType::f32, DType::f32};
  }
  data.tensors.push_back({.size = 0, .group = 1, .data = {nullptr, nullptr}});
  data.tensors.back().dtypes = {DType::f32, DType::f32};
  data.tensors[1].full_size = 6;  // a shard; other ranks hold the rest
  data.group_count = 2;
  for (const State& s : p.states) {
    size_t members = s.type.at == per::tensor ? 4 : s.type.at == per::group ? 2 : 1;
    data.states.emplace_back(members);
  }
  interpret(p, data);
  auto of = [&](std::string_view name) {
    return data.states[static_cast<size_t>(p.find_state(name))];
  };
  CHECK(of("of_tensor")[0].f64() == 1.5);
  CHECK(of("of_tensor")[1].f64() == -1);
  CHECK(of("of_tensor")[3].f64() == 0);  // of an empty tensor
  CHECK(of("of_group")[0].f64() == -3.0 / 8);
  CHECK(of("of_group")[1].f64() == 0);
  CHECK(of("of_step")[0].f64() == -3.0 / 8);
  CHECK(of("positive")[0].f64() == 1);
  CHECK(of("positive")[1].f64() == 0);
  CHECK(of("how_many")[0].i64() == 2);
  CHECK(of("elements")[0].i64() == 8);
}

TEST_CASE("the pipeline goes around any formula") {
  RecipeOptions all{.grad = DType::bf16,
                    .moments = DType::bf16,
                    .master = true,
                    .loss_scale = LossScale::dynamic,
                    .clip = Clip::l2,
                    .tensor_flags = true,
                    .zero_grad = true,
                    .ema = true};
  std::string s = step_of(
      "hyper lr = 0.1\nmoment m\nmoment z : f32 = w\nm = lerp(m, g, 0.1)\n"
      "z = z - lr * m\nw = lerp(w, z, 0.5)",
      all);
  CHECK(has(s, "buffer @m : bf16 inout = 0"));
  CHECK(has(s, "buffer @z : f32 inout = @master"));
  CHECK(has(s, "store @z, %z if %applied"));
  CHECK(has(s, "store @ema"));
  CHECK(has(s, "write @scale"));
}

TEST_CASE("options of its own are asked for with .with") {
  std::string body = "option sharp\nif sharp { let u = g * g } else { let u = g }\nw = w - u";
  CHECK(has(step_of(body), "%w_new = sub %w, %grad"));
  CHECK(has(step_of(body, {.with = {"sharp"}}), "%u = mul %grad, %grad"));
  CHECK(has(error_of(body, {.with = {"sharq"}}), "did you mean 'sharp'?"));
  CHECK(has(error_of("w = w - g", {.amsgrad = true}), "o has no .amsgrad"));
  CHECK(has(
      error_of("option a\nif a { refuse \"no --with=a today\" }\nw = w - g * g", {.with = {"a"}}),
      "no .with = a today"));
}

// tests/filetests/formulas/errors.opt has each error.
TEST_CASE("errors show the place and say what to do") {
  std::string e = error_of("moment exp_avg_sq\nexp_avg_sq = g\nw = w - exp_avg_sr");
  CHECK(has(e, "o.opt:4:9: error: there is no 'exp_avg_sr'; did you mean 'exp_avg_sq'?"));
  CHECK(has(e, "\n  w = w - exp_avg_sr\n          ^"));
  CHECK(has(error_of("w = " + std::string(5000, '(')), "nested more than 200 deep"));
  CHECK(
      has(error_of(
              "def a(x) = x * x * x\ndef b(x) = a(a(a(x)))\ndef c(x) = b(b(b(b(x))))\n"
              "def d(x) = c(c(c(c(c(x)))))\ndef e(x) = d(d(d(d(d(d(x))))))\n"
              "def f(x) = e(e(e(e(e(e(e(x)))))))\ndef h(x) = f(f(f(f(f(f(x))))))\nw = w - h(h(g))"),
          "too many operations"));
}

TEST_CASE("an optimizer begins from a built-in one with other defaults") {
  Optimizer mine =
      parse_optimizer("optimizer mine \"\" = adamw { hyper lr = 0.5\n decay l2 = 0.25 }");
  std::string s = print(make_recipe(mine));
  CHECK(has(s, "arg %lr : {f64} = 0.5"));
  CHECK(has(s, "arg %weight_decay : {f64} = 0.25"));
  CHECK(has(s, "g_l2"));
}

TEST_CASE("arrays that a formula only reads: inputs, and copies of the first weights") {
  std::string s =
      step_of("input h \"theirs\"\nmoment z : f32 = w\nw = w - g * h * z", {.master = true});
  CHECK(has(s, "buffer @h : f32 in\n"));
  CHECK(has(s, "buffer @z : f32 inout = @master\n"));
  CHECK(has(s, "load @h"));
  CHECK(s.find("store @z") == std::string::npos);
}

TEST_CASE("arrays that a formula only writes, and formulas that leave the weights alone") {
  std::string s = step_of(
      "moment m\nm = m + g\noutput u : bf16 = 2 * m \"theirs\"\nlet k = u + 1\n"
      "w = w - k",
      {.master = true, .clip = Clip::l2});
  CHECK(has(s, "buffer @u : bf16 out\n"));
  CHECK(has(s, "%u_out = select %good, %u, %u_none : [f32]"));  // NaN if the step is skipped
  CHECK(has(s, "%u_none = const nan : f32"));
  CHECK(s.find("store @u") == s.rfind("store @u"));
  CHECK(s.find("if %good", s.find("store @u")) > s.find('\n', s.find("store @u")));
  CHECK(has(s, "add %u, %"));  // its name stands for its value

  s = step_of("output u = g");
  CHECK(has(s, "buffer @u : f32 out\n"));
  CHECK(s.find("@weight") == std::string::npos);
  CHECK(has(step_of("output u = g * w"), "buffer @weight : f32 in\n"));
  CHECK(has(step_of("decay l2 = 0.1\noutput u = g"), "buffer @weight : f32 in\n"));
  CHECK(has(step_of("moment z : f32 = w\nz = z + g\noutput u = z"), "inout = @weight"));
  CHECK(has(error_of("output u = g", {.master = true}), "leave out .master"));
  CHECK(has(error_of("output u = g", {.ema = true}), "assigns nothing to the weight"));
}

TEST_CASE("a name that an option makes, too, is refused at its declaration") {
  const std::string body = "moment master\nmaster = g\nw = w - master";
  CHECK(error_of(body) == "no error");
  std::string e = error_of(body, {.master = true});
  CHECK(
      has(e, "o.opt:2:8: error: there is already a buffer 'master', which .master = f32 makes; "));
  CHECK(has(e, "choose a different name\n  moment master\n         ^"));
  Optimizer optimizer =
      parse_optimizer("optimizer o \"\" { hyper max_norm = 1\nw = w - g * max_norm }");
  CHECK(has(message_of([&] { make_recipe(optimizer, {.clip = Clip::l2}, OptionNames::flags); }),
            "there is already an argument 'max_norm', which --clip=l2 makes; "));
}

TEST_CASE("rows and columns are counted") {
  std::string s = step_of("w = w - g * (count(column) / count(row))");
  CHECK(has(s, "%columns = column_count : <i64>"));
  CHECK(has(s, "%rows = div %elements, %columns : <i64>"));
}

TEST_CASE("a profile that a formula does not ask for is refused, naming those that do") {
  CHECK(has(error_of("w = w - g", {.profile = Profile::apex}),
            ".profile = apex is for adam, adamw, whose formulas ask for it, and not for o"));
}
