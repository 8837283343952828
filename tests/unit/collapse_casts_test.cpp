// Pass collapse casts on hard values; its rules as text are in tests/filetests/passes. Knows ir and the
// passes.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "compiler/passes/passes.hpp"
#include "ir/semantics/semantics.hpp"
#include "tests/unit/pass_testing.hpp"

using namespace stepfuse;

// Whatever pairs the pass joins, the two casts and the one must agree on hard values.
TEST_CASE("collapse casts: joined chains give the bits of both casts") {
  const double values[] = {0.0,
                           -0.0,
                           1.0,
                           0.5,
                           -1.5,
                           1e-45,
                           6e-8,
                           65504,
                           65520,
                           3e38,
                           1e300,
                           1e-310,
                           2147483647.0,
                           -2147483648.0,
                           4294967297.0,
                           9.3e18,
                           -9.3e18,
                           16777217.0,
                           std::numeric_limits<double>::infinity(),
                           std::nan("")};
  const DType types[] = {DType::boolean, DType::i32, DType::i64, DType::f32, DType::f64};
  int joined = 0;
  for (DType a : types) {
    for (DType b : types) {
      for (DType c : types) {
        if ((b == DType::boolean && a != b) || (c == DType::boolean && b != c)) continue;
        std::string text = "  report @r : " + std::string(name(c)) +
                           "\n  arg %x : " + std::string(name(a)) +
                           "\n  %y = cast %x : " + std::string(name(b)) +
                           "\n  %z = cast %y : " + std::string(name(c)) + "\n  write @r, %z\n";
        Program p = collapse_casts(testing::parse_body(text));
        const Inst& write = p.insts.back();
        const Inst& last = p[write.operands[0]];
        if (last.op == Op::cast && p[last.operands[0]].op != Op::arg) continue;
        ++joined;
        for (double v : values) {
          Bits x = a == DType::boolean ? Bits::of(v > 0) : sem::cast(Bits::of(v), DType::f64, a);
          Bits both = sem::cast(sem::cast(x, a, b), b, c);
          CHECK(canonical_nan(sem::cast(x, a, c), c) == canonical_nan(both, c));
        }
      }
    }
  }
  CHECK(joined > 20);
}
