// Seeded values: functions of their place, and special where that is asked for.
#include "tools/workload/values.hpp"

#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "tools/workload/arrays.hpp"

using namespace stepfuse;

namespace {

std::vector<Bits> filled(DType dtype, size_t count, const Filling& filling, uint64_t seed = 1) {
  std::vector<char> bytes(count * size_of(dtype));
  fill_values(bytes.data(), count, dtype, RandomStream(seed, "grad", 3), filling);
  std::vector<Bits> out;
  for (size_t i = 0; i < count; ++i) out.push_back(load_bits(&bytes[i * size_of(dtype)], dtype));
  return out;
}

struct Count {
  int nan = 0, inf = 0, zero = 0, minus_zero = 0, subnormal = 0, huge = 0;
};

Count count(DType dtype, const std::vector<Bits>& values) {
  const DTypeInfo& f = info(dtype);
  uint64_t sign = f.sign();
  uint64_t normal = uint64_t{1} << f.fraction_bits;
  Count c;
  for (Bits v : values) {
    uint64_t magnitude = v.raw & ~sign;
    bool is_inf = f.has_infinity() && magnitude == f.highest;
    c.nan += magnitude > f.highest;
    c.inf += is_inf;
    c.huge += !is_inf && magnitude + (f.has_infinity() ? 1 : 0) == f.highest;
    c.zero += v.raw == 0;
    c.minus_zero += v.raw == sign;
    c.subnormal += magnitude > 0 && magnitude < normal;
  }
  return c;
}

}  // namespace

TEST_CASE("a value depends on seed, array, tensor, step and element, and on nothing else") {
  std::set<uint64_t> seen;
  for (uint64_t seed : {1, 2}) {
    for (const char* array : {"grad", "weight", "weigh"}) {
      for (uint64_t tensor : {0, 1}) {
        for (uint64_t step : {0, 1}) {
          RandomStream r(seed, array, tensor, step);
          for (uint64_t i : {0, 1}) seen.insert(r.bits(i));
          CHECK(r.bits(5) == RandomStream(seed, array, tensor, step).bits(5));
        }
      }
    }
  }
  CHECK(seen.size() == 2 * 3 * 2 * 2 * 2);
  // The same on every machine, for ever: digests are compared between machines.
  CHECK(RandomStream(1, "grad", 0, 1).bits(0) == 0xd2d789c5c69151a1U);
}

TEST_CASE("ordinary values are finite, centred, and as large as asked") {
  for (DType dtype : kFloatStorage) {
    Count c = count(dtype, filled(dtype, 50'000, {.scale = 0.02F}));
    CHECK(c.nan + c.inf + c.huge == 0);
  }
  double sum = 0;
  double squares = 0;
  for (Bits v : filled(DType::f32, 50'000, {.scale = 0.02F})) {
    sum += v.f32();
    squares += static_cast<double>(v.f32()) * v.f32();
  }
  CHECK(std::fabs(sum / 50'000) < 0.0005);
  CHECK(std::sqrt(squares / 50'000) == doctest::Approx(0.0231).epsilon(0.02));
  for (Bits v : filled(DType::f32, 1000, {.positive = true})) CHECK(v.f32() >= 0);
}

TEST_CASE("each spice brings its values") {
  for (DType dtype : kFloatStorage) {
    CAPTURE(name(dtype));
    Count mild = count(dtype, filled(dtype, 20'000, {.spice = Spice::mild}));
    CHECK(mild.nan + mild.inf + mild.huge == 0);
    CHECK(mild.zero > 50);
    CHECK(mild.minus_zero > 50);
    CHECK(mild.subnormal > 50);
    Count bad = count(dtype, filled(dtype, 20'000, {.spice = Spice::nonfinite}));
    CHECK(bad.nan > 5);
    CHECK((bad.inf > 5) == info(dtype).has_infinity());
    CHECK(bad.huge == 0);
    Count huge = count(dtype, filled(dtype, 20'000, {.spice = Spice::huge}));
    CHECK(huge.huge > 5);
    CHECK(huge.nan + huge.inf == 0);
    Count all = count(dtype, filled(dtype, 20'000, {.spice = Spice::all}));
    CHECK(all.nan > 0);
    CHECK((all.inf > 0) == info(dtype).has_infinity());
    CHECK(all.huge > 0);
    CHECK(all.subnormal > 50);
  }
}

TEST_CASE("the smallest array has what was asked for") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Count bad = count(DType::f16, filled(DType::f16, 1, {.spice = Spice::nonfinite}, seed));
    CHECK(bad.nan + bad.inf == 1);
    CHECK(count(DType::f32, filled(DType::f32, 2, {.spice = Spice::huge}, seed)).huge >= 1);
  }
}

TEST_CASE("arrays stand where the layout wants them, and notice writes beside them") {
  std::vector<ArraySet::Spec> specs = {{5, DType::f16, 0}, {0, DType::f32, 0}, {7, DType::f32, 3}};
  ArraySet arrays(specs);
  CHECK(arrays.pointers()[1] == nullptr);
  CHECK(reinterpret_cast<uintptr_t>(arrays.pointers()[0]) % 64 == 0);
  CHECK(reinterpret_cast<uintptr_t>(arrays.pointers()[2]) % 64 == 12);
  std::memset(arrays.pointers()[0], 0, 10);
  std::memset(arrays.pointers()[2], 0, 28);
  CHECK(!arrays.damaged());
  char* last = static_cast<char*>(arrays.pointers()[2]);
  last[28] = 1;
  CHECK(arrays.damaged() == 2);
  last[28] = '\xa5';
  last[-1] = 1;
  CHECK(arrays.damaged() == 2);
  last[-1] = '\xa5';
  static_cast<char*>(arrays.pointers()[0])[-64] = 1;
  CHECK(arrays.damaged() == 0);
}
