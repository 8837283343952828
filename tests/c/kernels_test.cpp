// Generated C kernels, compiled by the compilers that are here: the interpreter's bits. Knows all
// layers.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/printer.hpp>
#include <stepfuse/recipes.hpp>

#include "compiler/c/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "ir/semantics/interpreter.hpp"
#include "tests/c/c_runner.hpp"
#include "tests/support/check.hpp"
#include "tests/support/elementary_program.hpp"
#include "tests/support/fold_case.hpp"
#include "tests/support/rng.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

std::string check(const Case& c, Form form, const CCompiler& compiler) {
  TestData expected = c.data();
  TestData actual(expected);
  interpret(c.program, expected.step());
  Variant variant =
      make_variant(optimize(c.program, c.layout.signatures), c.layout.signatures, form);
  try {
    run_c(variant, emit_c(variant.plan), compiler, actual.step());
  } catch (const std::exception& e) {
    return e.what();
  }
  return difference(c.program, expected, actual).value_or("");
}

}  // namespace

TEST_CASE("random programs: C kernels give the interpreter's bits") {
  constexpr uint64_t kPrograms = 12;
  uint64_t first = 1;
  for (const CCompiler& compiler : c_compilers()) {
    for (uint64_t seed = first; seed < first + kPrograms; ++seed) {
      Case c = random_case(seed);
      Form form = Rng(seed, "form").pick({Form::fused, Form::split, Form::unfused});
      std::string fault = check(c, form, compiler);
      CHECK_MESSAGE(fault == "", compiler.name, ", seed ", seed, ", ", name(form), ": ", fault,
                    "\n", print(c.program));
    }
    first += kPrograms;
  }
}

TEST_CASE("recipes: C kernels give the interpreter's bits") {
  RecipeOptions whole{.grad = DTypeSet(DType::f16) | DType::bf16 | DType::f32,
                      .master = true,
                      .loss_scale = LossScale::dynamic,
                      .clip = Clip::l2,
                      .zero_grad = true};
  RecipeOptions groups{.clip = Clip::l2, .clip_per_group = true};
  RecipeOptions exact{.grad = DType::bf16, .master = Master::remainder};
  RecipeOptions near{.grad = DType::bf16, .master = Master::ecc24};
  set_option(near, "moments", "dyn4");
  RecipeOptions blocks{.master = true, .model = DType::f8e4m3, .copy_scale = CopyScale::mx_rceil};
  RecipeOptions squares = blocks;
  squares.copy_scale = CopyScale("mxfp8");
  RecipeOptions fours{.master = true, .copy_scale = CopyScale("nvfp4")};
  for (const CCompiler& compiler : c_compilers()) {
    uint64_t seed = 0;
    for (const Program& p :
         {make_recipe("adamw", whole), make_recipe("sgd", groups), make_recipe("lion", exact),
          make_recipe("lion", near), make_recipe("sgd", blocks), make_recipe("sgd", squares),
          make_recipe("sgd", fours)}) {
      for (Inputs inputs : {Inputs::normal, Inputs::special}) {
        Case c(p, ++seed);
        c.inputs = inputs;
        std::string fault = check(c, seed % 2 == 0 ? Form::unfused : Form::fused, compiler);
        CHECK_MESSAGE(fault == "", compiler.name, ", @", p.name, ": ", fault);
      }
    }
  }
}

TEST_CASE("exp, log, tanh and % in C kernels give the interpreter's bits") {
  for (const CCompiler& compiler : c_compilers()) {
    for (uint64_t seed : {1, 2}) {
      for (Inputs inputs : {Inputs::normal, Inputs::special}) {
        Case c(elementary_program(), seed);
        c.inputs = inputs;
        std::string fault = check(c, seed == 1 ? Form::fused : Form::unfused, compiler);
        CHECK_MESSAGE(fault == "", compiler.name, ": ", fault);
      }
    }
  }
}

TEST_CASE("tensors of no elements have no columns: C") {
  for (const CCompiler& compiler : c_compilers()) {
    for (uint64_t columns : {0, 5}) {
      Case c(make_recipe("adafactor"), 1);
      c.layout.tensors = {{.size = 0, .columns = columns}, {.size = 30, .columns = 5}};
      c.layout.fit_sizes(c.program);
      CHECK_MESSAGE(check(c, Form::fused, compiler) == "", compiler.name, ", ", columns);
    }
  }
}

TEST_CASE("a fault in a C kernel is seen") {
  std::vector<CCompiler> compilers = c_compilers();
  if (compilers.empty()) return;
  Case c(make_recipe("sgd"), 1);
  Variant variant =
      make_variant(optimize(c.program, c.layout.signatures), c.layout.signatures, Form::fused);
  TestData expected = c.data();
  TestData actual(expected);
  interpret(c.program, expected.step());
  std::string text = emit_c(variant.plan);
  size_t at = text.find("fmaf(");
  REQUIRE(at != std::string::npos);
  text.replace(at, 5, "-fmaf(");
  run_c(variant, text, compilers[0], actual.step());
  CHECK(difference(c.program, expected, actual).has_value());
}

TEST_CASE("parts of all sizes are folded as defined: C") {
  for (const CCompiler& compiler : c_compilers()) {
    for (bool nan : {false, true}) {
      FoldCase c(nan);
      TestData actual(c.data());
      Variant variant = make_variant(c.program(), c.layout().signatures);
      run_c(variant, emit_c(variant.plan), compiler, actual.step());
      CHECK_MESSAGE(c.difference(actual.step()) == "", compiler.name);
    }
  }
}
