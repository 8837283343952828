// Planted faults in passes: plausible but wrong rewrites. The random programs must catch each of
// them. Knows ir and compiler.
#include <string>

#include <doctest/doctest.h>

#include "compiler/passes/passes.hpp"
#include "compiler/passes/rewriter.hpp"
#include "ir/semantics/interpreter.hpp"
#include "tests/support/check.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

bool is_constant(const Program& p, ValueId v, Bits bits) {
  return v != kNoValue && p[v].op == Op::constant && p[v].literal == bits;
}

// Replaces instructions by their first operand if the types allow it.
template <class Test>
Program drop_where(const Program& program, Test&& test) {
  Rewriter r(program);
  for (ValueId v = 0; v < program.size(); ++v) {
    Inst inst = r.remapped(v);
    bool drop = is_elementwise(inst.op) && test(r.program(), inst) &&
                r.program()[inst.operands[0]].type == inst.type;
    if (drop) {
      r.replace(v, inst.operands[0]);
    } else {
      r.emit(v, inst);
    }
  }
  return r.finish();
}

template <class Change>
Program change_each(const Program& program, Change&& change) {
  Rewriter r(program);
  for (ValueId v = 0; v < program.size(); ++v) {
    Inst inst = r.remapped(v);
    change(r.program(), inst);
    r.emit(v, inst);
  }
  return r.finish();
}

using PassFunction = Program (*)(const Program&);

// The number of random programs until the faulty pass changes the bits; 0 if it never does.
int caught_after(PassFunction pass) {
  constexpr int kPrograms = 4000;
  for (int i = 1; i <= kPrograms; ++i) {
    Case c = random_case(static_cast<uint64_t>(i) + 500'000);
    Program next = pass(c.program);
    if (next == c.program) continue;
    TestData expected = c.data();
    TestData actual(expected);
    interpret(c.program, expected.step());
    interpret(next, actual.step());
    if (difference(c.program, expected, actual)) return i;
  }
  return 0;
}

Program plus_zero(const Program& p) {
  return drop_where(p, [](const Program& q, const Inst& i) {
    return i.op == Op::add && is_constant(q, i.operands[1], Bits::of(0.0F));
  });
}
Program narrow_and_back(const Program& p) {
  return change_each(p, [](const Program& q, Inst& i) {
    if (i.op != Op::cast || i.type.dtype != DType::f32) return;
    const Inst& inner = q[i.operands[0]];
    bool rounded = inner.op == Op::cast && is_low_precision(inner.type.dtype);
    if (rounded) i.operands[0] = inner.operands[0];
  });
}
Program not_less_is_greater_equal(const Program& p) {
  return change_each(p, [](const Program& q, Inst& i) {
    if (i.op != Op::logical_not || q[i.operands[0]].op != Op::lt) return;
    auto operands = q[i.operands[0]].operands;
    i = {.op = Op::le, .type = i.type, .operands = {operands[1], operands[0], kNoValue}};
  });
}
Program contracted(const Program& p) {
  return change_each(p, [](const Program& q, Inst& i) {
    bool real = i.type.dtype == DType::f32 || i.type.dtype == DType::f64;
    if (i.op != Op::add || !real || q[i.operands[0]].op != Op::mul) return;
    auto factors = q[i.operands[0]].operands;
    i = {.op = Op::fma, .type = i.type, .operands = {factors[0], factors[1], i.operands[1]}};
  });
}
Program commuted_subtraction(const Program& p) {
  return change_each(p, [](const Program&, Inst& i) {
    if (i.op == Op::sub) std::swap(i.operands[0], i.operands[1]);
  });
}
Program lost_predicate(const Program& p) {
  return change_each(p, [](const Program&, Inst& i) { i.predicate = kNoValue; });
}
Program zero_without_sign(const Program& p) {
  return change_each(p, [](const Program&, Inst& i) {
    bool negative_zero = i.op == Op::constant && i.literal == Bits::of(-0.0F);
    if (negative_zero && i.type.dtype == DType::f32) i.literal = {};
  });
}
Program finite_is_not_nan(const Program& p) {
  return change_each(p, [](const Program&, Inst& i) {
    if (i.op != Op::isfinite) return;
    i = {.op = Op::eq, .type = i.type, .operands = {i.operands[0], i.operands[0], kNoValue}};
  });
}

}  // namespace

TEST_CASE("planted pass faults are caught") {
  struct Fault {
    const char* name;
    PassFunction pass;
  };
  for (Fault f : {Fault{"x + 0 is x", plus_zero},
                  {"f32 -> f16 -> f32 is nothing", narrow_and_back},
                  {"not (a < b) is b <= a", not_less_is_greater_equal},
                  {"a * b + c is fma", contracted},
                  {"a - b is b - a", commuted_subtraction},
                  {"an effect loses its predicate", lost_predicate},
                  {"-0 is 0", zero_without_sign},
                  {"isfinite x is x = x", finite_is_not_nan}}) {
    int programs = caught_after(f.pass);
    MESSAGE(std::string(f.name), ": caught by program ", programs);
    CHECK(programs > 0);
  }
}
