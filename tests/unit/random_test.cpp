// Random numbers: Philox compared with its authors' vectors, the inputs of each draw, and the
// stochastic cast's distribution and edges.
#include "ir/semantics/random.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "ir/program/builder.hpp"
#include "ir/semantics/interpreter.hpp"
#include "ir/semantics/semantics.hpp"

using namespace stepfuse;

TEST_CASE("Philox4x32-10 gives Random123's known answers") {
  constexpr uint32_t kAll = 0xffffffff;
  CHECK(philox({0, 0, 0, 0}, 0) == Philox{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({kAll, kAll, kAll, kAll}, ~uint64_t{0}) ==
        Philox{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822) ==
        Philox{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

namespace {

// The values of `random` for a tensor.
std::vector<int32_t> draw(StepTensor tensor, int64_t seed, int64_t count, int32_t stream) {
  Builder b("draw");
  BufferRef out = b.buffer("out", DType::i32, Access::out);
  auto arg = [&](const char* name, DType t) { return b.arg(name, {t, per::step}); };
  Value s = arg("seed", DType::i64);
  Value c = arg("count", DType::i64);
  b.store(out, b.random(s, c, arg("stream", DType::i32)));
  Program p = b.finish();
  std::vector<int32_t> values(tensor.size);
  tensor.data = {values.data()};
  tensor.dtypes = {DType::i32};
  StepData data{.tensors = {tensor},
                .args = {{Bits::of(seed)}, {Bits::of(count)}, {Bits::of(stream)}},
                .states = {}};
  interpret(p, data);
  return values;
}

}  // namespace

TEST_CASE("a random number is its element's: place, tensor, stream, count and seed, nothing else") {
  constexpr uint64_t kFar = (uint64_t{1} << 40) + 3 * 16384;
  StepTensor tensor{.size = 40000, .offset = kFar, .id = 7};
  std::vector<int32_t> all = draw(tensor, 0x123456789abcdef, 5, 3);
  Philox words = philox({static_cast<uint32_t>(kFar / 4), (kFar / 4 >> 32) << 16 | 3, 7, 5},
                        0x123456789abcdef);
  for (size_t i = 0; i < 4; ++i) CHECK(static_cast<uint32_t>(all[i]) == words[i]);
  // A shard gets its part.
  std::vector<int32_t> part =
      draw({.size = 40000 - 16384, .offset = kFar + 16384, .id = 7}, 0x123456789abcdef, 5, 3);
  CHECK(std::equal(part.begin(), part.end(), all.begin() + 16384));
  // Each input changes all values, also far away.
  CHECK(draw({.size = 4, .offset = kFar, .id = 8}, 0x123456789abcdef, 5, 3)[0] != all[0]);
  CHECK(draw({.size = 4, .offset = kFar, .id = 7}, 0x123456789abcdee, 5, 3)[0] != all[0]);
  CHECK(draw({.size = 4, .offset = kFar, .id = 7}, 0x023456789abcdef, 5, 3)[0] != all[0]);
  CHECK(draw({.size = 4, .offset = kFar, .id = 7}, 0x123456789abcdef, 6, 3)[0] != all[0]);
  CHECK(draw({.size = 4, .offset = kFar, .id = 7}, 0x123456789abcdef, 5, 2)[0] != all[0]);
  for (uint64_t bit : {31, 32, 33, 34, 35}) {
    uint64_t moved = kFar ^ (uint64_t{1} << bit);
    CHECK(draw({.size = 4, .offset = moved, .id = 7}, 0x123456789abcdef, 5, 3)[0] != all[0]);
  }
}

TEST_CASE("cast_sr rounds up as often as the fraction says: chi-square over 2^16 fractions") {
  // Numbers between two neighbours of a type, one per 16-bit fraction.
  struct Case {
    DType type;
    double low, step;
  };
  const Case cases[] = {
      {DType::bf16, 1.0, 0x1p-7},   {DType::bf16, -3.0e5, -2048},
      {DType::f16, 1.0, 0x1p-10},   {DType::f16, -3 * 0x1p-24, -0x1p-24},  // subnormals
      {DType::f8e4m3, 1.0, 0x1p-3}, {DType::f8e4m3, 0x1p-9, 0x1p-9},
      {DType::f8e5m2, 40000, 8192}, {DType::f8e5m2, 0, 0x1p-16}};
  constexpr int kFractions = 1 << 16;
  constexpr int kDraws = 64;
  for (const Case& c : cases) {
    CAPTURE(name(c.type));
    CAPTURE(c.low);
    double low = sem::cast(sem::cast(Bits::of(static_cast<float>(c.low)), DType::f32, c.type),
                           c.type, DType::f32)
                     .f32();
    double chi = 0;
    int terms = 0;
    for (int k = 1; k < kFractions; ++k) {
      double fraction = static_cast<double>(k) / kFractions;
      auto exact = static_cast<float>(low + c.step * fraction);
      double p = (static_cast<double>(exact) - low) / c.step;  // if f32 has fewer fractions
      if (p <= 0 || p >= 1) continue;
      int ups = 0, downs = 0;
      for (int d = 0; d < kDraws / 4; ++d) {
        RandomKey key{1, static_cast<uint64_t>(d), 0, static_cast<uint32_t>(c.type)};
        for (uint32_t r : random_block(key, static_cast<uint64_t>(k))) {
          float v =
              sem::cast(sem::cast_sr(Bits::of(exact), Bits{r}, c.type), c.type, DType::f32).f32();
          downs += v == low ? 1 : 0;
          ups += v == low + c.step ? 1 : 0;
        }
      }
      REQUIRE(ups + downs == kDraws);
      double off = ups - kDraws * p;
      chi += off * off / (kDraws * p * (1 - p));
      ++terms;
    }
    // A chi-square with `terms` degrees of freedom: mean terms, deviation sqrt(2 terms), more where
    // p is near 0 or 1.
    CHECK(std::abs(chi - terms) < 6 * std::sqrt(2.0 * terms) + 0.02 * terms);
  }
}

TEST_CASE("cast_sr: numbers of the type stay, edges and overflow are those of the cast") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (DType t : kSignedLowPrecision) {
    CAPTURE(name(t));
    const DTypeInfo& row = info(t);
    auto by = [&](float v, uint32_t r) { return sem::cast_sr(Bits::of(v), Bits{r}, t).raw; };
    for (uint32_t r : {0U, 1U, 0x7fffffffU, 0x80000000U, 0xffffffffU}) {
      for (uint64_t bits = 0; bits < row.patterns(); ++bits) {
        if (is_nan({bits}, t)) continue;
        if (by(widen(static_cast<uint32_t>(bits), t), r) != bits) FAIL_CHECK(bits);
      }
      CHECK(by(std::numeric_limits<float>::quiet_NaN(), r) == row.nan);
      CHECK(by(kInf, r) == row.highest);
      CHECK(by(-kInf, r) == (row.highest | row.sign()));
    }
    uint64_t last = row.highest - (row.has_infinity() ? 1 : 0);
    float most = widen(static_cast<uint32_t>(last), t);
    float beyond = std::nextafter(most, kInf);
    // Just beyond the last number: rounds to it or to the highest pattern, as the random bits
    // decide.
    CHECK(by(beyond, 0xffffffff) == last);
    CHECK(by(beyond, 0) == row.highest);
    float tiny = std::numeric_limits<float>::denorm_min();
    CHECK(by(tiny, 0xffffffff) == 0);
    CHECK(by(-tiny, 0xffffffff) == row.sign());
  }
  // torchao rounds to bf16 up if 16 random bits are below the 16 dropped bits.
  CHECK(sem::cast_sr(Bits::of(1 + 0x1p-8F), Bits{0x7fff0000}, DType::bf16).raw == 0x3f81);
  CHECK(sem::cast_sr(Bits::of(1 + 0x1p-8F), Bits{0x80000000}, DType::bf16).raw == 0x3f80);
  CHECK(sem::cast_sr(Bits::of(0.1F), Bits{0}, DType::f32) == Bits::of(0.1F));
}
