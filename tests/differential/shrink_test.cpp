// Shrinking: a failing program becomes a small one that still fails. Knows ir and compiler.
#include "tests/differential/shrink.hpp"

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>

#include "compiler/passes/rewriter.hpp"
#include "ir/program/verifier.hpp"
#include "ir/semantics/interpreter.hpp"
#include "tests/support/check.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// A fault: every subtraction the wrong way round.
Program swap_subtractions(const Program& program) {
  Rewriter r(program);
  for (ValueId v = 0; v < program.size(); ++v) {
    Inst inst = r.remapped(v);
    if (inst.op == Op::sub) std::swap(inst.operands[0], inst.operands[1]);
    r.emit(v, inst);
  }
  return r.finish();
}

bool fails(const Program& p, uint64_t seed) {
  Case c(p, seed);
  TestData expected = c.data();
  TestData actual(expected);
  interpret(p, expected.step());
  interpret(swap_subtractions(p), actual.step());
  return difference(p, expected, actual).has_value();
}

}  // namespace

TEST_CASE("shrinking leaves little more than the fault") {
  int shrunk = 0;
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    Case c = random_case(seed);
    if (!fails(c.program, seed)) continue;
    Program small = shrink(c.program, [&](const Program& p) { return fails(p, seed); });
    CAPTURE(print(small));
    CHECK(find_violations(small).empty());
    CHECK(fails(small, seed));
    CHECK(fails(parse(print(small)), seed));  // and so from the file that is kept
    CHECK(small.size() - static_cast<ValueId>(small.args.size()) <= 10);
    ++shrunk;
  }
  CHECK(shrunk >= 10);
}

TEST_CASE("shrinking keeps a program that has nothing to lose") {
  Program p = parse("step @s {\n  report @r : i32\n  %c = const 3 : i32\n  write @r, %c\n}\n");
  CHECK(shrink(p, [](const Program&) { return true; }) == p);
  CHECK(shrink(p, [](const Program&) { return false; }) == p);
}
