// Random formulas with random options of the pipeline mean the same everywhere. Knows all layers.
//
// STEPFUSE_SEEDS=FIRST:COUNT chooses them.
#include <cstdlib>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/recipes.hpp>

#include "runtime/cpu/llvm_compiler.hpp"
#include "tests/differential/random_formula.hpp"
#include "tests/support/check.hpp"
#include "tests/support/elementary_program.hpp"
#include "tests/support/rng.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

RecipeOptions random_options(uint64_t seed) {
  Rng rng(seed, "options");
  RecipeOptions o;
  if (rng.chance(50)) o.grad = rng.pick({DType::f16, DType::bf16});
  if (rng.chance(30)) o.moments = DType::bf16;
  if (rng.chance(40)) {
    o.master = rng.pick({Master::f32, Master::remainder, Master::ecc24});
    if (o.master != Master::f32) o.model = DType::bf16;
  }
  if (rng.chance(30)) o.loss_scale = LossScale::dynamic;
  if (rng.chance(40)) o.clip = rng.pick({Clip::l2, Clip::inf, Clip::value});
  o.tensor_flags = rng.chance(20);
  o.zero_grad = rng.chance(20);
  o.ema = rng.chance(20);
  o.maximize = rng.chance(20);
  return o;
}

// A formula may have no moments to keep otherwise.
Program random_recipe(uint64_t seed) {
  Optimizer optimizer = parse_optimizer(random_formula(seed), "random.opt");
  RecipeOptions options = random_options(seed);
  try {
    return make_recipe(optimizer, options);
  } catch (const Error& e) {
    if (std::string_view(e.what()).find("has no moments") == std::string_view::npos) throw;
    options.moments = DType::f32;
    return make_recipe(optimizer, options);
  }
}

Fault check_one(uint64_t seed) {
  try {
    Case c(random_recipe(seed), seed);
    if (Fault f = check_text(c)) return f;
    if (Fault f = check_passes(c)) return f;
    return llvm_status().available ? check_cpu(c) : Fault();
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("random formulas mean the same after every pass and in every kernel") {
  uint64_t first = 1;
  uint64_t count = 60;
  if (const char* text = std::getenv("STEPFUSE_SEEDS")) {
    char* end = nullptr;
    first = std::strtoull(text, &end, 10);
    count = *end == ':' ? std::strtoull(end + 1, nullptr, 10) : 1;
  }
  for (uint64_t seed = first; seed < first + count; ++seed) {
    if (Fault f = check_one(seed)) {
      FAIL_CHECK("STEPFUSE_SEEDS=", seed, ":1: ", *f, "\n", random_formula(seed));
    }
  }
}

TEST_CASE("exp, log, tanh and % mean the same after every pass and in every kernel") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    for (Inputs inputs : {Inputs::normal, Inputs::special}) {
      Case c(elementary_program(), seed);
      c.inputs = inputs;
      CHECK(check_text(c).value_or("") == "");
      CHECK(check_passes(c).value_or("") == "");
      if (llvm_status().available) CHECK(check_cpu(c).value_or("") == "");
    }
  }
}
