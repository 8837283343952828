// Division by a value of coarser granularity: the machine's own bits, for divisors and dividends that lie
// next to a midpoint, and for those that nothing but the divider can do. Knows the public API.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/stepfuse.hpp>

#include "runtime/cpu/llvm_compiler.hpp"

using namespace stepfuse;

namespace {

constexpr const char* kStep = R"(step @quotients {
  buffer @grad : f32 in
  buffer @quotient : f32 inout
  buffer @of_root : f32 inout
  arg %d : f32 = 1
  %x = load @grad : [f32]
  %q = div %x, %d : [f32]
  store @quotient, %q
  %root = sqrt %x : [f32]
  %r = div %root, %d : [f32]
  store @of_root, %r
})";

constexpr size_t kSize = 40'007;

float from_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

std::vector<float> divisors(std::mt19937& random) {
  std::vector<float> all = {
      1,        -1,     0,        -0.0F,          3,        -3,    1e-3F, 1e-2F, 0.1F,
      0x1p-20F, 0x1p20, 0x1p-21F, 0x1.000002p20F, 0x1p126F, 1e-40F};
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (float d : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN(), 0x1.fffffep127F}) {
    all.push_back(d);
  }
  for (int e : {-20, -1, 0, 7, 19}) {
    for (uint32_t fraction : {0x7fffffU, 0x7ffffeU, 1U, 2U, 0x400000U, 0x3fffffU}) {
      all.push_back(std::ldexp(from_bits(0x3f800000U | fraction), e));
    }
    for (int i = 0; i < 4; ++i) {
      all.push_back(std::ldexp(from_bits(0x3f800000U | (random() >> 9)), e));
    }
  }
  return all;
}

// Half of them next to the product of the divisor and a midpoint; the others of all kinds, in runs, for
// one of them sends its whole vector to the divider.
std::vector<float> dividends(float d, std::mt19937& random) {
  std::vector<float> all;
  while (all.size() < kSize) {
    if (all.size() / 512 % 2 == 0) {
      double midpoint = std::ldexp(2.0 * static_cast<double>(random() >> 8) + 1, -25);
      auto near = static_cast<float>(midpoint * d);
      uint32_t bits = std::bit_cast<uint32_t>(near) + random() % 3 - 1;
      all.push_back(std::ldexp(from_bits(bits), static_cast<int>(random() % 120) - 60));
    } else if (all.size() / 64 % 2 == 0) {
      all.push_back(from_bits(static_cast<uint32_t>(random())));
    } else {
      const float kinds[] = {0, -0.0F, 0x1p-100F, -0x1p100F, 0x1.8p-101F, 0x1.1p100F, 1e-45F, 7};
      all.push_back(random() % 97 == 0 ? std::numeric_limits<float>::infinity()
                                       : kinds[random() % 8]);
    }
  }
  return all;
}

// The first quotient that is another than the machine's; "" if none is.
std::string difference(const std::vector<float>& x, float d, const std::vector<float>& quotient,
                       const std::vector<float>& of_root) {
  auto differs = [](float expected, float actual) {
    if (std::isnan(expected) && std::isnan(actual)) return false;
    return std::bit_cast<uint32_t>(expected) != std::bit_cast<uint32_t>(actual);
  };
  for (size_t i = 0; i < x.size(); ++i) {
    if (differs(x[i] / d, quotient[i]) || differs(std::sqrt(x[i]) / d, of_root[i])) {
      return std::to_string(x[i]) + " / " + std::to_string(d);
    }
  }
  return "";
}

}  // namespace

TEST_CASE("division by a value of the step has the machine's bits") {
  Layout layout;
  layout.add({.name = "only", .elements = kSize});
  for (const std::string& level : runnable_cpu_levels()) {
    std::mt19937 random(1);
    std::vector<float> x(kSize), quotient(kSize), of_root(kSize);
    Step step(parse(kStep), layout, Device::cpu(1, level));
    step.prepare();
    step.bind_raw("quotient", {quotient.data()});
    step.bind_raw("of_root", {of_root.data()});
    Args args = step.make_args();
    for (float d : divisors(random)) {
      x = dividends(d, random);
      args.set("d", d);
      step.run({x.data()}, args);
      CHECK_MESSAGE(difference(x, d, quotient, of_root) == "", level);
    }
  }
}
