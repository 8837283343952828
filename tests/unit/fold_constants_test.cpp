// Pass fold constants in any rounding mode; its rules as text are in tests/filetests/passes. Knows ir
// and the passes.
#include <cfenv>

#include "compiler/passes/passes.hpp"
#include "tests/unit/pass_testing.hpp"

using namespace stepfuse;

TEST_CASE("fold constants: the caller's rounding mode changes nothing") {
  // To nearest a third is rounded away from zero, in f32; each other mode turns one of them around.
  Program p = testing::parse_body(
      "  report @r : f32\n  report @s : f32\n  %a = const 1 : f32\n  %b = const 3 : f32\n"
      "  %c = const -3 : f32\n  %q = div %a, %b : f32\n  %t = div %a, %c : f32\n"
      "  write @r, %q\n  write @s, %t\n");
  Program nearest = fold_constants(p);
  REQUIRE(nearest != p);
  for (int wanted : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(wanted);
    Program folded = fold_constants(p);
    int mode = std::fegetround();
    std::fesetround(FE_TONEAREST);
    CHECK(mode == wanted);
    CHECK(folded == nearest);
  }
}
