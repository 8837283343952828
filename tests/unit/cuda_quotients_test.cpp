// Which divisions by what elements share a CUDA kernel does without asking how far from 1 their numbers are. Knows the
// recipes and the emitter.
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>

#include "compiler/cuda/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

TEST_CASE("a quotient is near where an integer is divided by a constant, and only there") {
  Program program = make_recipe("adamw", {.moments_format = "exp_avg=int8|exp_avg_sq=sqrt8"});
  std::vector<Signature> signatures = signatures_of(program);
  std::string text = emit_cuda(make_variant(optimize(program, signatures), signatures).plan);
  auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
  CHECK(has(" = divided(e_exp_avg_whole, s_exp_avg_c_127_f32);"));
  CHECK(has(" = divided(e_exp_avg_sq_whole, s_exp_avg_sq_c_255_f32);"));
  CHECK(has(" = divided(e_exp_avg, e_exp_avg_divisor, far);"));
  CHECK_FALSE(has("e_exp_avg_divisor);  // %exp_avg.n"));
}
