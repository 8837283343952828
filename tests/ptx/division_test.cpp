// Division by a value that a block or a tensor shares. A GPU's threads multiply by its reciprocal
// if that rounds correctly. The bits are the interpreter's on the PTX machine, at every edge of
// that rule. Knows all layers.
#include <bit>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>

#include "compiler/cuda/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "ir/semantics/interpreter.hpp"
#include "tests/ptx/device_runner.hpp"
#include "tests/support/needs_nvrtc.hpp"
#include "tests/support/random_data.hpp"
#include "tests/support/rng.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr int kBlock = 16;
constexpr const char* kProgram = R"(step @quotients {
  buffer @x : f32 in
  buffer @d : <f32/16> in
  buffer @by_block : f32 out
  buffer @by_tensor : f32 out
  arg %shared : <f32>
  %x = load @x : [f32]
  %d = load @d : <f32/16>
  %q = div %x, %d : [f32]
  %r = div %x, %shared : [f32]
  store @by_block, %q
  store @by_tensor, %r
}
)";

float power(int exponent) { return std::ldexp(1.0F, exponent); }

// Numbers of every kind, including neighbours of the fast path's limits and of midpoints.
float number(Rng& rng) {
  static constexpr int kLimits[] = {-149, -126, -81, -80, -41, -40, -39,
                                    39,   40,   41,  79,  80,  81,  126};
  switch (rng.below(8)) {
    case 0:
      return power(kLimits[rng.below(std::size(kLimits))]);
    case 1:
      return std::nextafter(power(kLimits[rng.below(std::size(kLimits))]),
                            rng.chance(50) ? 0.0F : 1e38F);
    case 2:
      return rng.chance(50) ? 0.0F : std::numeric_limits<float>::max();
    case 3:
      return rng.chance(50) ? std::numeric_limits<float>::infinity()
                            : std::numeric_limits<float>::quiet_NaN();
    case 4:  // all bits of the significand set
      return std::nextafter(power(static_cast<int>(rng.below(60)) - 30), 0.0F);
    default:
      return std::bit_cast<float>((static_cast<uint32_t>(rng.below(100) + 77) << 23) |
                                  static_cast<uint32_t>(rng.below(1U << 23)));
  }
}

}  // namespace

TEST_CASE("what is divided by a shared value is rounded as a division") {
  STEPFUSE_NEEDS_NVRTC();
  Program program = parse(kProgram);
  TestLayout layout{.signatures = {{DType::f32, DType::f32, DType::f32, DType::f32}},
                    .group_count = 1};
  // Long enough for tiles in the middle of a chunk: the chunk's end never takes the fast path.
  for (int t = 0; t < 6; ++t) {
    layout.tensors.push_back({.size = 8192 + 13 * static_cast<uint64_t>(t), .group = 0});
  }
  Variant variant =
      make_variant(optimize(program, layout.signatures), layout.signatures, Form::fused);
  DeviceRunner runner(variant, emit_cuda(variant.plan), 90);
  REQUIRE(runner.ptx().find("rcp.rn") != std::string::npos);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Rng rng(seed);
    TestData expected(program, layout, seed, Inputs::normal);
    for (size_t t = 0; t < layout.tensors.size(); ++t) {
      StepTensor& tensor = expected.step().tensors[t];
      auto* x = static_cast<float*>(tensor.data[0]);
      auto* d = static_cast<float*>(tensor.data[1]);
      const uint64_t size = layout.tensors[t].size;
      // Only ordinary numbers, ordinary ones with a few that some threads must divide, or numbers
      // of all kinds.
      const int unusual[] = {0, 1, 100};
      auto any = [&] {
        float v =
            rng.chance(unusual[t % 3]) ? number(rng) : 1 + static_cast<float>(rng.below(1000));
        return rng.chance(50) ? v : -v;
      };
      for (uint64_t i = 0; i < size; ++i) x[i] = any();
      for (uint64_t b = 0; b < (size + kBlock - 1) / kBlock; ++b) d[b] = any();
      expected.step().args[0][t] =
          Bits::of(t < 3 ? any() : 1 + static_cast<float>(rng.below(1000)));
    }
    TestData actual(expected);
    interpret(program, expected.step());
    runner.run(actual.step(), {.seed = seed});
    CHECK(difference(program, expected, actual).value_or("") == "");
  }
}
