// The conversions of low-precision floats compared with an independent definition: the list of a
// format's numbers, written with ldexp, and the nearest of them. Knows ir.
#include "ir/semantics/narrow.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

using namespace stepfuse;

namespace {

// A published format: OCP's 8-bit and 4-bit floats, IEEE's binary16, Google's bfloat16.
struct Published {
  DType dtype;
  int bias, fraction;
  double largest, smallest_normal, smallest;
  bool has_infinity;
  uint32_t patterns;
};
const Published kPublished[] = {
    {DType::f16, 15, 10, 65504, 0x1p-14, 0x1p-24, true, 65536},
    {DType::bf16, 127, 7, 0x1.fep127, 0x1p-126, 0x1p-133, true, 65536},
    {DType::f8e4m3, 7, 3, 448, 0x1p-6, 0x1p-9, false, 256},
    {DType::f8e5m2, 15, 2, 57344, 0x1p-14, 0x1p-16, true, 256},
    {DType::f4e2m1, 1, 1, 6, 1, 0.5, false, 16},
};

// The magnitudes in the order of their patterns, and the next one that an unlimited range would
// have.
std::vector<double> magnitudes(const Published& f) {
  std::vector<double> values;
  for (int pattern = 0; values.empty() || values.back() <= f.largest; ++pattern) {
    int exponent = pattern >> f.fraction;
    int fraction = pattern & ((1 << f.fraction) - 1);
    if (exponent > 0) fraction += 1 << f.fraction;
    values.push_back(std::ldexp(fraction, std::max(exponent, 1) - f.bias - f.fraction));
  }
  return values;
}

// The pattern nearest to a number; of two equally near ones, the even one.
uint32_t nearest(const std::vector<double>& values, const Published& f, double v) {
  auto above = static_cast<size_t>(std::lower_bound(values.begin(), values.end(), std::fabs(v)) -
                                   values.begin());
  size_t best = std::min(above, values.size() - 1);
  if (above > 0 && above < values.size()) {
    double up = values[above] - std::fabs(v);
    double down = std::fabs(v) - values[above - 1];
    if (down < up || (down == up && above % 2 == 1)) best = above - 1;
  }
  if (!f.has_infinity) best = std::min(best, values.size() - 2);
  return static_cast<uint32_t>(best) | (std::signbit(v) ? f.patterns / 2 : 0);
}

}  // namespace

TEST_CASE("every row of the table below f32 is a published format") {
  DTypeSet seen;
  for (const Published& f : kPublished) {
    CAPTURE(name(f.dtype));
    seen = seen | f.dtype;
    const DTypeInfo& row = info(f.dtype);
    CHECK(row.bias() == f.bias);
    CHECK(row.fraction_bits == f.fraction);
    CHECK(row.has_infinity() == f.has_infinity);
    CHECK(row.nan == (f.dtype == DType::f4e2m1 ? 0 : f.patterns / 2 - 1));
    CHECK(row.patterns() == f.patterns);
    CHECK(size_of(f.dtype) == std::max<size_t>(std::countr_zero(f.patterns) / 8, 1));
    std::vector<double> values = magnitudes(f);
    CHECK(values[1] == f.smallest);
    CHECK(values[size_t{1} << f.fraction] == f.smallest_normal);
    CHECK(values[values.size() - 2] == f.largest);
  }
  CHECK(seen == kSignedLowPrecision);
}

TEST_CASE("every pattern widens to its number") {
  for (const Published& f : kPublished) {
    CAPTURE(name(f.dtype));
    std::vector<double> values = magnitudes(f);
    int wrong = 0;
    for (uint32_t p = 0; p < f.patterns; ++p) {
      uint32_t magnitude = p % (f.patterns / 2);
      float v = widen(p, f.dtype);
      bool same = std::signbit(v) == (p >= f.patterns / 2);
      if (magnitude + 1 < values.size()) {
        same &= std::fabs(v) == values[magnitude];
      } else if (f.has_infinity && magnitude + 1 == values.size()) {
        same &= std::isinf(v);
      } else {
        same &= std::isnan(v) && is_nan({p}, f.dtype);
      }
      wrong += same ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("numbers narrow to the nearest pattern, ties to even; those beyond to the highest") {
  for (const Published& f : kPublished) {
    CAPTURE(name(f.dtype));
    std::vector<double> values = magnitudes(f);
    int wrong = 0;
    auto check = [&](float v) {
      auto nan = static_cast<uint32_t>(info(f.dtype).nan);
      uint32_t want = std::isnan(v) ? nan : nearest(values, f, static_cast<double>(v));
      wrong += narrow(v, f.dtype) == want ? 0 : 1;
    };
    auto around = [&](float v) {
      uint32_t u = std::bit_cast<uint32_t>(v);
      for (uint32_t d : {-2, -1, 0, 1, 2}) {
        check(std::bit_cast<float>(u + d));
        check(std::bit_cast<float>((u + d) ^ 0x80000000U));
      }
    };
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      around(static_cast<float>(values[i]));
      around(static_cast<float>((values[i] + values[i + 1]) / 2));
    }
    // Every exponent, with fractions unrelated to any format's borders.
    for (uint64_t u = 0; u < (uint64_t{1} << 32); u += 6151) {
      check(std::bit_cast<float>(static_cast<uint32_t>(u)));
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("f8e8m0 has powers of two; halfway between two of them the larger one is taken") {
  constexpr DType kPower = DType::f8e8m0;
  for (uint32_t p = 0; p < 255; ++p) {
    CAPTURE(p);
    auto power = static_cast<float>(std::ldexp(1.0, static_cast<int>(p) - 127));
    CHECK(widen(p, kPower) == power);
    CHECK(narrow(power, kPower) == p);
    CHECK(narrow(-power, kPower) == p);
    float half = power * 1.5F;
    uint32_t next = std::min(p + 1, 254U);
    CHECK(narrow(half, kPower) == next);
    // f32's subnormal numbers above the first power become the second, as in torch and ml_dtypes.
    CHECK(narrow(std::nextafter(half, 0.0F), kPower) == (p == 0 ? next : p));
    CHECK(narrow(std::nextafter(power, 2 * power), kPower) == (p == 0 ? next : p));
    CHECK(narrow(std::nextafter(half, 2 * half), kPower) == next);
  }
  CHECK(std::isnan(widen(255, kPower)));
  CHECK(is_nan({255}, kPower));
  CHECK(!is_nan({254}, kPower));
  CHECK(narrow(std::numeric_limits<float>::quiet_NaN(), kPower) == 255);
  CHECK(narrow(std::numeric_limits<float>::infinity(), kPower) == 254);
  CHECK(narrow(0.0F, kPower) == 0);
}

TEST_CASE("f4e2m1 has no NaN, and bits above its sign do not count") {
  CHECK(narrow(std::numeric_limits<float>::quiet_NaN(), DType::f4e2m1) == 0);
  for (uint32_t p = 0; p < 256; ++p) {
    CHECK(std::bit_cast<uint32_t>(widen(p, DType::f4e2m1)) ==
          std::bit_cast<uint32_t>(widen(p & 15, DType::f4e2m1)));
    CHECK(!is_nan({p}, DType::f4e2m1));
  }
}

TEST_CASE("a set has room for every dtype") {
  for (int i = 0; i < kDTypeCount; ++i) {
    auto t = static_cast<DType>(i);
    CHECK(DTypeSet(t).only() == t);
    CHECK(kAnyDType.contains(t));
    CHECK(dtype_from_name(name(t)) == t);
  }
  CHECK(kAnyDType.size() == kDTypeCount);
  CHECK(!kAnyDType.contains(DType::bound));
}
