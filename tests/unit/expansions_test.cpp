// Expansions of ops (expansions/*.sf) equal their definitions (semantics.hpp): for every 16-bit
// value, and for edges and many other values of 32 and 64 bits.
#include "compiler/plan/expansions.hpp"

#include <cmath>
#include <limits>
#include <random>

#include <doctest/doctest.h>

#include "ir/semantics/fp_env.hpp"
#include "ir/semantics/semantics.hpp"

using namespace stepfuse;

namespace {

Bits run(const plan::Expansion& e, const std::vector<Bits>& operands) {
  std::vector<Bits> v(e.values.size());
  for (size_t i = 0; i < v.size(); ++i) {
    v[i] = i < operands.size() ? operands[i] : e.values[i].literal;
  }
  for (const plan::Inst& inst : e.code) {
    Bits in[3];
    for (size_t i = 0; i < static_cast<size_t>(inst.arity()); ++i) {
      in[i] = v[static_cast<size_t>(inst.operands[i])];
    }
    // Within an expansion a NaN's bits are unspecified.
    bool machine = inst.op == Op::bitcast;
    v[static_cast<size_t>(inst.value)] =
        machine ? Bits{in[0].raw & (~uint64_t{0} >> (64 - 8 * size_of(inst.out)))}
                : sem::evaluate(inst.op, inst.in, inst.out, in[0], in[1], in[2]);
  }
  return v[static_cast<size_t>(e.result)];
}

// Zeros, subnormals, ones, halves, large numbers, infinities and NaNs, with their neighbours.
std::vector<Bits> edges(DType t) {
  std::vector<Bits> out;
  auto around = [&](Bits b) {
    for (uint64_t d : {-1, 0, 1}) {
      uint64_t raw = b.raw + d;
      out.push_back({size_of(t) == 8 ? raw : raw & ((uint64_t{1} << 8 * size_of(t)) - 1)});
    }
  };
  for (uint64_t i = 0; i < 8 * size_of(t); ++i) around({uint64_t{1} << i});
  around({~uint64_t{0}});
  for (double v : {0.0, 0.5, 1.0, std::sqrt(0.5), std::sqrt(2.0), 1.5, 2.0, 2.5, 3.5, 126.0, 127.5,
                   1e10, 1e30, 8388607.5, 8388608.0, 4503599627370495.5, 4503599627370496.0,
                   double(INFINITY), double(NAN)}) {
    for (double x : {v, -v}) {
      if (t == DType::f32) around(Bits::of(static_cast<float>(x)));
      if (t == DType::f64) around(Bits::of(x));
    }
  }
  return out;
}

std::vector<Bits> samples(DType t) {
  if (t == DType::boolean) return {Bits::of(false), Bits::of(true)};
  std::vector<Bits> out;
  if (size_of(t) <= 2) {
    for (uint64_t i = 0; i < info(t).patterns(); ++i) out.push_back({i});
    return out;
  }
  out = edges(t);
  std::mt19937_64 random(7);
  for (int i = 0; i < 100'000; ++i) {
    uint64_t raw = random() >> (size_of(t) == 4 ? 32 : 0);
    out.push_back({raw});
    // Random bit patterns are rarely near one; most real numbers are.
    double near = static_cast<double>(static_cast<int64_t>(raw) % 100'000) / 1024;
    if (t == DType::f32) out.push_back(Bits::of(static_cast<float>(near)));
    if (t == DType::f64) out.push_back(Bits::of(near));
  }
  return out;
}

}  // namespace

TEST_CASE("every expansion is its op") {
  FpEnvGuard guard;
  std::mt19937_64 random(11);
  for (const plan::Expansion* each : plan::all_expansions()) {
    const plan::Expansion& e = *each;
    CAPTURE(e.name);
    std::vector<std::vector<Bits>> lists;
    for (int i = 0; i < info(e.op).arity; ++i) {
      lists.push_back(samples(e.values[static_cast<size_t>(i)].dtype));
    }
    int wrong = 0;
    auto check = [&](const std::vector<Bits>& operands) {
      Bits in[3];
      std::copy(operands.begin(), operands.end(), in);
      Bits want = sem::evaluate(e.op, e.in, e.out, in[0], in[1], in[2]);
      Bits got = run(e, operands);
      if (canonical_nan(got, e.out) != canonical_nan(want, e.out) && ++wrong == 1) {
        CAPTURE(in[0].raw);
        CAPTURE(in[1].raw);
        CAPTURE(in[2].raw);
        CHECK(got.raw == want.raw);
      }
    };
    for (size_t i = 0; i < lists[0].size(); ++i) {
      std::vector<Bits> operands = {lists[0][i]};
      for (size_t k = 1; k < lists.size(); ++k) {
        // Sometimes the operands are equal.
        uint64_t r = random();
        operands.push_back(r % 8 == 0 ? operands[0] : lists[k][(r >> 8) % lists[k].size()]);
      }
      check(operands);
    }
    if (lists.size() == 2) {  // every pair of edges
      for (Bits a : edges(e.in)) {
        for (Bits b : edges(e.in)) check({a, b});
      }
    }
    CHECK(wrong == 0);
  }
}
