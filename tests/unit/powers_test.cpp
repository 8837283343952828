// The errors that ir/semantics/powers.hpp promises, against long double; exact and special cases.
#include "ir/semantics/powers.hpp"

#include <random>

#include <doctest/doctest.h>

#include "ir/semantics/fp_env.hpp"
#include "tests/support/last_place.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// The largest error over all that `next` gives.
template <class T, class Next, class Ours, class Theirs>
double worst(int count, Next next, Ours ours, Theirs theirs) {
  double most = 0;
  for (int i = 0; i < count; ++i) {
    T x = next(i);
    most = std::max(most, ulps_off(ours(x), theirs(static_cast<Wide>(x))));
  }
  return most;
}

constexpr int kCount = 400'000;
struct Random {
  std::mt19937_64 bits{17};
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double around(double radius) { return (2 * unit() - 1) * radius; }
};

// Every exponent of the type, many near 1, whole numbers.
template <class T>
T positive(Random& r, int i) {
  if (i % 3 == 0) {
    uint64_t raw = r.bits();
    T v = sizeof(T) == 4 ? static_cast<T>(std::bit_cast<float>(static_cast<uint32_t>(raw >> 33)))
                         : static_cast<T>(std::bit_cast<double>(raw >> 1));
    if (std::isfinite(v) && v > 0) return v;
  }
  if (i % 3 == 1)
    return static_cast<T>(1 + r.around(std::ldexp(0.5, -static_cast<int>(r.bits() % 40))));
  return static_cast<T>(r.unit() * 1000 + 0x1p-60);
}

}  // namespace

TEST_CASE("exp2 and log2 are less than a unit of the last place off") {
  FpEnvGuard guard;
  Random r;
  auto exponent32 = [&](int i) { return static_cast<float>(r.around(i % 2 == 0 ? 2 : 155)); };
  auto exponent64 = [&](int i) { return r.around(i % 2 == 0 ? 2 : 1100); };
  auto two_to = [](Wide x) { return std::exp2(x); };
  auto log = [](Wide x) { return std::log2(x); };
  CHECK(worst<float>(kCount, exponent32, [](float x) { return sem::exp2(x); }, two_to) < 1);
  CHECK(worst<double>(kCount, exponent64, [](double x) { return sem::exp2(x); }, two_to) < 1);
  CHECK(worst<float>(
            kCount, [&](int i) { return positive<float>(r, i); },
            [](float x) { return sem::log2(x); }, log) < 1);
  CHECK(worst<double>(
            kCount, [&](int i) { return positive<double>(r, i); },
            [](double x) { return sem::log2(x); }, log) < 1);
}

TEST_CASE("pow is less than a unit of the last place off, of f32 hardly more than half of one") {
  FpEnvGuard guard;
  Random r;
  double most = 0;
  double most32 = 0;
  for (int i = 0; i < kCount; ++i) {
    double x = positive<double>(r, i);
    double y = i % 4 == 0 ? r.around(10) : r.around(1100) / (sem::log2(x) + 1e-300);
    if (!std::isfinite(y)) continue;
    if (i % 5 == 0) y = std::nearbyint(y);
    most = std::max(most,
                    ulps_off(sem::pow(x, y), std::pow(static_cast<Wide>(x), static_cast<Wide>(y))));
    auto f = positive<float>(r, i);
    auto g =
        static_cast<float>(i % 4 == 0 ? r.around(10) : r.around(155) / (sem::log2(f) + 1e-30F));
    if (!std::isfinite(g)) continue;
    most32 = std::max(
        most32, ulps_off(sem::pow(f, g), std::pow(static_cast<Wide>(f), static_cast<Wide>(g))));
  }
  CHECK(most < 1);
  CHECK(most32 < 0.501);
}

TEST_CASE("whole powers of two, and small whole powers, are exact") {
  FpEnvGuard guard;
  int wrong = 0;
  for (int k = -1074; k < 1024; ++k) {
    wrong += sem::exp2(static_cast<double>(k)) == std::ldexp(1.0, k) ? 0 : 1;
    wrong += sem::log2(std::ldexp(1.0, k)) == k ? 0 : 1;
    wrong += sem::pow(2.0, static_cast<double>(k)) == std::ldexp(1.0, k) ? 0 : 1;
  }
  for (int k = -149; k < 128; ++k) {
    wrong += sem::exp2(static_cast<float>(k)) == std::ldexp(1.0F, k) ? 0 : 1;
    wrong += sem::log2(std::ldexp(1.0F, k)) == static_cast<float>(k) ? 0 : 1;
  }
  for (int base = -30; base <= 30; ++base) {
    double power = 1;
    for (int k = 0; std::fabs(power) < 0x1p53; ++k) {
      wrong += sem::pow(static_cast<double>(base), static_cast<double>(k)) == power ? 0 : 1;
      power *= base;
      if (k == 60) break;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("zeros, infinities, NaNs, negative bases and what lies beyond the numbers") {
  FpEnvGuard guard;
  constexpr double kInf = HUGE_VAL;
  auto same = [](double a, double b) {
    return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
  };
  CHECK(same(sem::exp2(kInf), kInf));
  CHECK(same(sem::exp2(-kInf), 0));
  CHECK(same(sem::exp2(1024.0), kInf));
  CHECK(same(sem::exp2(-1075.1), 0));
  CHECK(same(sem::exp2(-0.0), 1));
  CHECK(std::isnan(sem::exp2(std::nan(""))));
  CHECK(sem::exp2(128.0F) == HUGE_VALF);
  CHECK(sem::exp2(-150.5F) == 0);
  CHECK(same(sem::log2(0.0), -kInf));
  CHECK(same(sem::log2(-0.0), -kInf));
  CHECK(same(sem::log2(1.0), 0));
  CHECK(same(sem::log2(kInf), kInf));
  CHECK(std::isnan(sem::log2(-1.0)));
  CHECK(std::isnan(sem::log2(-kInf)));
  CHECK(std::isnan(sem::log2(-1e-40F)));
  // C's rules, from C's own pow, where what is finite may differ in the last place.
  for (double a : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 1e300, 5e-324, kInf, std::nan(""), 1 - 0x1p-53,
                   1 + 0x1p-52}) {
    for (double b :
         {0.0, 0.5, 1.0, 2.0, 3.0, 7.5, 1e17, 0x1p53 - 1, 1e300, 5e-324, kInf, std::nan("")}) {
      for (double x : {a, -a}) {
        for (double y : {b, -b}) {
          CAPTURE(x);
          CAPTURE(y);
          double want = std::pow(x, y);
          double got = sem::pow(x, y);
          bool alike = std::isfinite(want) && want != 0
                           ? ulps_off(got, static_cast<Wide>(want)) <= 1
                           : same(got, want);
          CHECK(alike);
        }
      }
    }
  }
}
