// Pass remove dead: what no effect needs goes. Knows ir and the passes.
#include "compiler/passes/passes.hpp"
#include "tests/unit/pass_testing.hpp"

using namespace stepfuse;
using stepfuse::testing::check_pass;

TEST_CASE("remove dead: chains go; args, stages, declarations, predicates and effects stay") {
  check_pass(remove_dead,
             R"(  buffer @g : f32 in
  buffer @unused : f16 in
  buffer @w : f32 inout
  state @s : f32
  arg %unused : {f64}
  arg %lr : f32
  stage first
  %g = load @g : [f32]
  %sq = mul %g, %g : [f32]
  %sum = reduce_add %sq : f32
  %norm = sqrt %sum : f32
  %fin = isfinite %g : [bool]
  stage second
  %s = read @s : f32
  store @w, %lr if %fin
)",
             R"(  buffer @g : f32 in
  buffer @unused : f16 in
  buffer @w : f32 inout
  state @s : f32
  arg %unused : {f64}
  arg %lr : f32
  stage first
  %g = load @g : [f32]
  %fin = isfinite %g : [bool]
  stage second
  store @w, %lr if %fin
)");
}
