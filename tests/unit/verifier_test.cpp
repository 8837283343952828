// Each numbered rule of the verifier is broken once, in each way it can be, and named with its
// place. Knows ir.
#include "ir/verifier.hpp"

#include <set>
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/program.hpp>

using namespace stepfuse;

namespace {

std::vector<Diagnostic> faults_of(const std::string& body) {
  return find_violations(parse_unverified("step @t {\n" + body + "}\n"));
}

// `body` breaks rule `rule` only, at `line` and `column` of the text (the body begins at line 2);
// the message contains `fragment`.
struct Broken {
  int rule;
  int line;
  int column;
  const char* fragment;
  const char* body;
};

std::set<int>& tested_rules() {
  static std::set<int> rules;
  return rules;
}

void check(const Broken& b) {
  CAPTURE(b.body);
  auto faults = faults_of(b.body);
  REQUIRE(!faults.empty());
  for (const Diagnostic& d : faults) CHECK(d.rule == b.rule);
  CHECK(faults[0].loc.line == b.line);
  CHECK(faults[0].loc.column == b.column);
  CAPTURE(faults[0].message);
  CHECK(faults[0].message.find(b.fragment) != std::string::npos);
  tested_rules().insert(b.rule);
  // parse() tells the same, with file, place, rule and caret.
  std::string text;
  try {
    parse("step @t {\n" + std::string(b.body) + "}\n", "f.sf");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::verify);
    CHECK(e.loc().line == b.line);
    text = e.what();
  }
  // … at the part that is wrong, where the instruction has it.
  CHECK(text.starts_with(b.line == 0 ? "f.sf: error: " : "f.sf:" + std::to_string(b.line) + ":"));
  CHECK(text.find("[V" + std::to_string(b.rule) + "]") != std::string::npos);
  CHECK((b.line == 0 || text.find('^') != std::string::npos));
}

}  // namespace

// V1 cannot be broken by text: the parser knows only values that are defined.
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
  p.insts.push_back({.op = Op::neg, .type = {DType::f32, Domain::element}, .operands = {2}});
  p.names.push_back("z");
  p.locs.emplace_back();
  breaks_v1(p);
  p = good;  // a bound type of no buffer
  p.insts[0].type = {DType::bound, Domain::element, 9};
  breaks_v1(p);
  tested_rules().insert(1);
}

TEST_CASE("V2: types follow from the op") {
  const char* fragments[][2] = {
      {"%y = neg %h : [f16]", "cast to f32 first"},
      {"%y = add %x, %i : [f32]", "cast one"},
      {"%y = add %x, %x : [i32]", "not [i32]"},
      {"%y = sqrt %i : [i32]", "sqrt takes f32 f64"},
      {"%y = isfinite %i : [bool]", "isfinite takes f32 f64"},
      {"%y = isfinite %x : [f32]", "has dtype bool"},
      {"%y = not %x : [bool]", "not takes bool"},
      {"%y = and %p, %x : [bool]", "and takes operands of one dtype"},
      {"%y = lt %x, %i : [bool]", "lt compares two"},
      {"%y = lt %x, %x : [f32]", "has dtype bool"},
      {"%y = eq %p, %p : [bool]", "eq compares two"},
      {"%y = select %x, %x, %x : [f32]", "select takes (bool, T, T)"},
      {"%y = select %p, %x, %i : [f32]", "select takes (bool, T, T)"},
      {"%y = select %p, %h, %h : [f16]", "select takes (bool, T, T)"},
      {"%y = cast %h : [i32]", "from and to f32 only"},
      {"%y = cast %h : [bf16]", "from and to f32 only"},
      {"%y = cast %x : [bool]", "there is no cast to bool"},
      {"%y = powi %s, %s : f32", "powi takes"},
      {"%y = powi %n, %n : i32", "powi takes"},
      {"%y = powi %s, %n : f64", "has dtype f32"},
      {"%y = reduce_add %p : bool", "reduce_add takes i32 i64 f32 f64"},
      {"%y = reduce_any %x : bool", "reduce_any takes bool"},
      {"%y = reduce_max %x : i32", "has dtype f32"},
      {"%y = present : bool", "type of present is <bool>"},
      {"%y = tensor_index : <f32>", "type of tensor_index is <i32>"},
      {"%y = element_count : i64", "type of element_count is <i64>"},
      {"%y = column_count : f32", "type of column_count is <i64>"},
      {"%y = element_index : <i32>", "type of element_index is [i32]"},
      {"%y = load @w : [f16]", "type of load is [f32]"},
      {"%y = load @w : f32", "type of load is [f32]"},
      {"%y = read @s : f64", "type of read is f32"},
      {"%y = fma %x, %x, %i : [f32]", "operands of one dtype"},
  };
  for (auto [statement, fragment] : fragments) {
    std::string body = std::string(
                           "  buffer @w : f32 inout\n  buffer @h : f16 in\n  state @s : f32\n"
                           "  %x = load @w : [f32]\n  %h = load @h : [f16]\n"
                           "  %i = element_index : [i32]\n  %p = lt %x, %x : [bool]\n"
                           "  %s = read @s : f32\n  %n = const 2 : i32\n  store @w, %x\n  ") +
                       statement + "\n";
    check({2, 12, 3, fragment, body.c_str()});
  }
}

TEST_CASE("V3: domains") {
  check({3, 4, 3, "finest operand: [f32], not f32",
         "  buffer @w : f32 inout\n  %x = load @w : [f32]\n  %y = neg %x : f32\n  store @w, %x\n"});
  check({3, 5, 3, "finest operand: <i32>, not [i32]",
         "  report @r : <i32>\n  %t = tensor_index : <i32>\n  %c = const 1 : i32\n"
         "  %y = add %t, %c : [i32]\n  write @r, %t\n"});
  check({3, 4, 3, "must have a coarser domain",
         "  report @r : f32\n  %c = const 1 : f32\n  %y = reduce_add %c : f32\n  write @r, %c\n"});
  check({3, 4, 3, "must have a coarser domain",
         "  report @r : <i32>\n  %t = tensor_index : <i32>\n  %y = reduce_add %t : [i32]\n"
         "  write @r, %t\n"});
  check({3, 6, 3, "powi is not available in the element domain",
         "  buffer @w : f32 inout\n  %x = load @w : [f32]\n  %n = const 2 : i32\n  store @w, %x\n"
         "  %y = powi %x, %n : [f32]\n"});
}

TEST_CASE("V4: the element domain has no f64 and no i64") {
  check({4, 4, 3, "element code holds no f64",
         "  buffer @w : f32 inout\n  %x = load @w : [f32]\n  %y = cast %x : [f64]\n"
         "  store @w, %x\n"});
  check({4, 4, 3, "element code holds no i64",
         "  buffer @w : i32 inout\n  %x = load @w : [i32]\n  %y = cast %x : [i64]\n"
         "  store @w, %x\n"});
}

TEST_CASE("V5: bound types") {
  check({5, 5, 3, "",
         "  buffer @w : f16|f32 out\n  %c = const 1 : f32\n  %b = cast %c : @w\n"
         "  %y = cast %b : f32\n  store @w, %b\n"});
  check({5, 4, 3, "@w has one storage type: name it",
         "  buffer @w : f32 inout\n  %x = load @w : [f32]\n  %y = cast %x : [@w]\n"
         "  store @w, %x\n"});
}

TEST_CASE("V6: access") {
  check({6, 5, 3, "`in` buffer and cannot be stored",
         "  buffer @w : f32 inout\n  buffer @g : f32 in\n  %x = load @g : [f32]\n"
         "  store @g, %x\n  store @w, %x\n"});
  check({6, 3, 3, "`out` buffer and cannot be loaded",
         "  buffer @w : f32 out\n  %x = load @w : [f32]\n  store @w, %x\n"});
}

TEST_CASE("V7: one store, one write") {
  check({7, 5, 3, "@w is stored twice",
         "  buffer @w : f32 inout\n  %x = load @w : [f32]\n  store @w, %x\n  store @w, %x\n"});
  check({7, 5, 3, "@s is written twice",
         "  state @s : f32\n  %x = read @s : f32\n  write @s, %x\n  write @s, %x\n"});
}

TEST_CASE("V8: a store takes the storage type") {
  check({8, 5, 3, "@w stores [f16], not [f32]; cast first",
         "  buffer @w : f16 inout\n  %h = load @w : [f16]\n  %x = cast %h : [f32]\n"
         "  store @w, %x\n"});
  check({8, 5, 3, "@w stores [@w], not [@g]; cast first",
         "  buffer @w : f16|f32 out\n  buffer @g : f16|f32 in\n  %x = load @g : [@g]\n"
         "  store @w, %x\n"});
}

TEST_CASE("V9: a write takes the state's dtype, in no finer domain") {
  check({9, 4, 3, "@s has type f64; a value of type f32",
         "  state @s : f64\n  %x = const 1 : f32\n  write @s, %x\n"});
  check({9, 4, 3, "@s has type {i32}; a value of type <i32>",
         "  state @s : {i32}\n  %x = tensor_index : <i32>\n  write @s, %x\n"});
}

TEST_CASE("V10: predicates") {
  check({10, 4, 3, "must be bool in a domain no finer than element",
         "  buffer @w : f32 inout\n  %x = load @w : [f32]\n  store @w, %x if %x\n"});
  check({10, 5, 3, "must be bool in a domain no finer than group",
         "  state @s : {f32}\n  %x = read @s : {f32}\n  %p = present : <bool>\n"
         "  write @s, %x if %p\n"});
}

TEST_CASE("V11: reports") {
  check({11, 3, 3, "@r is a report: it is written, never read",
         "  report @r : f32\n  %x = read @r : f32\n  write @r, %x\n"});
  check({11, 5, 3, "@r is written twice",
         "  report @r : f32\n  %x = const 1 : f32\n  write @r, %x\n  write @r, %x\n"});
  check({11, 3, 3, "@unused is a report that is never written",
         "  report @r : f32\n  report @unused : f32\n  %x = const 1 : f32\n  write @r, %x\n"});
}

TEST_CASE("V12: names") {
  check({12, 3, 3, "two buffers have the name 'w'",
         "  buffer @w : f32 inout\n  buffer @w : f16 in\n  %x = load @w : [f32]\n"
         "  store @w, %x\n"});
  check({12, 3, 3, "two states have the name 's'",
         "  state @s : f32\n  state @s : f32\n  %x = read @s : f32\n  write @s, %x\n"});
  check({12, 2, 3, "'a-b' is not a name for a buffer",
         "  buffer @a-b : f32 inout\n  %x = load @a-b : [f32]\n  store @a-b, %x\n"});
  check({12, 3, 3, "'x+y' is not a name for a value",
         "  state @s : f32\n  %x+y = read @s : f32\n  write @s, %x+y\n"});
}

TEST_CASE("V13: buffers") {
  for (const char* types : {"i64", "f64", "bool", "i32|f32", "f16|f64"}) {
    std::string body = std::string("  report @r : bool\n  buffer @w : ") + types +
                       " in\n  %x = const true : bool\n  write @r, %x\n";
    check({13, 3, 3, "lists a storage type it cannot have", body.c_str()});
  }
  check({13, 2, 3, "@grad is an `in` buffer, whose contents are given",
         "  buffer @grad : f32 in = 0\n  buffer @w : f32 inout\n  %g = load @grad : [f32]\n"
         "  store @w, %g\n"});
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

TEST_CASE("V14: states") {
  for (const char* type : {"[f32]", "f16", "<bf16>"}) {
    std::string body = std::string("  report @r : f32\n  state @s : ") + type +
                       "\n  %x = const 1 : f32\n  write @r, %x\n";
    check({14, 3, 3, "states are f32 f64 i32 i64 bool", body.c_str()});
  }
  check({14, 3, 3, "shared state @s must be of the step domain",
         "  report @r : f32\n  state @s : <f32> shared\n  %x = const 1 : f32\n  write @r, %x\n"});
}

TEST_CASE("V15: args") {
  check({15, 4, 3, "arg %a must stand before every other value",
         "  report @r : f32\n  %x = const 1 : f32\n  arg %a : f32\n  write @r, %x\n"});
  for (const char* type : {"[f32]", "f16", "{bf16}", "<bf16>"}) {
    std::string body = std::string("  report @r : f32\n  arg %a : ") + type +
                       "\n  %x = const 1 : f32\n  write @r, %x\n";
    check({15, 3, 3, "args are f32 f64 i32 i64 bool", body.c_str()});
  }
}

TEST_CASE("V16: constants") {
  check({16, 3, 3, "a constant is of the step domain",
         "  report @r : f32\n  %x = const 1 : [f32]\n  %y = const 1 : f32\n  write @r, %y\n"});
  check({16, 3, 3, "bits do not fit f32",
         "  report @r : f32\n  %x = const bits(0x1ffffffff) : f32\n  write @r, %x\n"});
  check({16, 3, 3, "bits do not fit bool",
         "  report @r : bool\n  %x = const bits(0x2) : bool\n  write @r, %x\n"});
  check({16, 3, 3, "bits do not fit f16",
         "  report @r : f32\n  %h = const bits(0x10000) : f16\n  %x = cast %h : f32\n"
         "  write @r, %x\n"});
}

TEST_CASE("V17: an effect") {
  check({17, 0, 0, "the step has no effect", ""});
  check({17, 0, 0, "the step has no effect", "  stage nothing\n  %x = const 1 : f32\n"});
}

TEST_CASE("every rule was broken above, and a rule broken often is told at most 20 times") {
  for (int rule = 1; rule <= 17 && tested_rules().size() > 1; ++rule) {  // else run alone
    CAPTURE(rule);
    CHECK(tested_rules().contains(rule));
  }
  std::string body = "  report @r : f32\n";
  for (int i = 0; i < 1000; ++i)
    body += "  state @s : [f32]\n  %x" + std::to_string(i) + " = const 1 : [f32]\n";
  CHECK(faults_of(body).size() == 20);
}
