// Rules of the verifier that no text can break; tests/filetests/verifier has the others. Knows ir.
#include "ir/program/verifier.hpp"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/program.hpp>

using namespace stepfuse;

// The parser knows only values that are defined.
TEST_CASE("V1: operands are defined before their use, and are no effects") {
  Program good = parse(
      "step @t {\n  buffer @w : f32 inout\n  %x = load @w : [f32]\n  %y = neg %x : [f32]\n"
      "  store @w, %y\n}\n");
  auto breaks_v1 = [](const Program& p) {
    auto faults = find_violations(p);
    REQUIRE(!faults.empty());
    CHECK(faults[0].rule == 1);
  };
  for (ValueId bad : {-7, -1, 1, 2, 3, 100, 2147483647}) {
    Program p = good;
    p.insts[1].operands[0] = bad;
    breaks_v1(p);
  }
  Program p = good;
  p.insts[2].predicate = 55;
  breaks_v1(p);
  p = good;
  p.insts[1].predicate = 0;
  breaks_v1(p);
  for (int32_t slot : {-1, 1, 1000}) {
    p = good;
    p.insts[0].slot = slot;
    breaks_v1(p);
  }
  p = good;  // an effect as operand
  p.insts.push_back({.op = Op::neg, .type = {DType::f32, per::element}, .operands = {2}});
  p.names.push_back("z");
  p.locs.emplace_back();
  breaks_v1(p);
  p = good;  // a bound type of no buffer
  p.insts[0].type = {DType::bound, per::element, 9};
  breaks_v1(p);
}

TEST_CASE("V13: a buffer is initialised from an earlier one") {
  // In text a buffer is not known before its own line.
  Program p = parse_unverified(
      "step @t {\n  buffer @w : f32 in\n  buffer @m : f32 inout = @w\n  %x = load @m : [f32]\n"
      "  store @m, %x\n}\n");
  CHECK(find_violations(p).empty());
  for (int32_t from : {-1, 1, 7}) {
    p.buffers[1].init_from = from;
    REQUIRE(find_violations(p).size() == 1);
    CHECK(find_violations(p)[0].rule == 13);
  }
}

TEST_CASE("a rule that is broken often is reported at most 20 times") {
  std::string text = "step @t {\n  report @r : f32\n";
  for (int i = 0; i < 1000; ++i)
    text += "  state @s : [f32]\n  %x" + std::to_string(i) + " = const 1 : [f32]\n";
  CHECK(find_violations(parse_unverified(text + "}\n")).size() == 20);
}

TEST_CASE("a program made by hand with a number that its enum does not have is refused") {
  Program good = parse(
      "step @t {\n  buffer @w : f32 inout\n  state @s : f32\n  arg %a : f32\n"
      "  %x = load @w : [f32]\n  %y = add %x, %a : [f32]\n  store @w, %y\n}\n");
  REQUIRE(find_violations(good).empty());
  for (int n : {kDTypeCount, kDTypeCount + 1, kDTypeCount + 2, 100, 255}) {
    CAPTURE(n);
    std::vector<Program> bad(7, good);
    bad[0].insts[2].op = static_cast<Op>(std::min(n + 100, 255));
    bad[1].insts[2].type.dtype = static_cast<DType>(std::min(n + 1, 255));
    bad[2].insts[1].type.at.scope = static_cast<Scope>(n);
    bad[3].buffers[0].access = static_cast<Access>(n);
    bad[4].buffers[0].init = static_cast<Buffer::Init>(n);
    bad[5].states[0].type.at.scope = static_cast<Scope>(n);
    bad[6].args[0].type.dtype = static_cast<DType>(std::min(n + 1, 255));
    for (const Program& p : bad) {
      std::vector<Diagnostic> found = find_violations(p);
      REQUIRE(found.size() == 1);
      CHECK(found[0].message.find("does not exist: build it with Builder") != std::string::npos);
    }
  }
}
