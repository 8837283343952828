// exp2, log2 and pow as fixed sequences of IEEE operations: every machine gives the same bits, unlike
// libraries. Errors in units of the last place: exp2 and log2 of f32 and f64, and pow of f64, below 1; pow
// of f32 below 0.501. Powers of two and other exact results are exact. Knows only std.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace stepfuse::sem {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Returns c[0] + x (c[1] + x (c[2] + …)), each step one fma.
template <class T, size_t N>
T polynomial(T x, const T (&c)[N]) {
  T sum = c[N - 1];
  for (size_t i = N - 1; i-- > 0;) sum = std::fma(sum, x, c[i]);
  return sum;
}

// Adding it to a number below a quarter of it leaves the nearest integer in the lowest bits.
template <class T>
inline constexpr T kRounder = sizeof(T) == 4 ? T(0x1.8p23) : T(0x1.8p52);

// Returns 2^n for the n in `rounder + n`.
inline float power_of_two(float moved) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(moved) << 23) + 0x3f800000U);
}
inline double power_of_two(double moved) {
  return std::bit_cast<double>((std::bit_cast<uint64_t>(moved) << 52) + 0x3ff0000000000000U);
}

// Returns v 2^n for an integer n with |n| up to twice `most`, in two steps. The first one is exact.
template <class T>
T scaled(T v, T n, T most) {
  T first = n > most ? most : n < -most ? -most : n;
  return v * power_of_two(first + kRounder<T>) * power_of_two((n - first) + kRounder<T>);
}

inline float exp2(float a) {
  if (a != a) return a;
  float x = a > 200 ? 200 : a < -200 ? -200 : a;  // the result is infinity or 0 beyond
  float n = (x + kRounder<float>)-kRounder<float>;
  float r = x - n;
  constexpr float kRest[] = {0x1.62e43p-1F,  0x1.ebfbep-3F,  0x1.c6af6cp-5F,
                             0x1.3b2a54p-7F, 0x1.5f089p-10F, 0x1.44138ap-13F};
  return scaled(std::fma(r, polynomial(r, kRest), 1.0F), n, 100.0F);
}

// Returns 2^(high + low) for |high| up to 2000, where low is below high's last place.
inline double exp2_of_sum(double high, double low) {
  double n = (high + kRounder<double>)-kRounder<double>;
  double part = high - n;
  double r = part + low;
  double r_low = (part - r) + low;
  // 1 + r ln 2 exactly, in two parts, and the small remaining terms.
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  constexpr double kLn2Low = 0x1.abc9e3b39803fp-56;
  constexpr double kRest[] = {0x1.ebfbdff82c58fp-3,  0x1.c6b08d704a0c2p-5,  0x1.3b2ab6fba4e78p-7,
                              0x1.5d87fe78a5276p-10, 0x1.430912f86bf52p-13, 0x1.ffcbfc670dcd4p-17,
                              0x1.62c022401b97dp-20, 0x1.b524fae627834p-24, 0x1.e4cf1cd08d4b8p-28,
                              0x1.e9d3fe3952179p-32, 0x1.c48f769ad2c46p-36};
  double u = r * kLn2;
  double u_low = std::fma(r_low, kLn2, std::fma(r, kLn2Low, std::fma(r, kLn2, -u)));
  double rest = std::fma(r * r, polynomial(r, kRest), u_low);
  double sum = 1 + u;
  double sum_low = (1 - sum) + u;
  return scaled(sum + (sum_low + rest), n, 1000.0);
}
inline double exp2(double a) {
  if (a != a) return a;
  return exp2_of_sum(a > 2000 ? 2000 : a < -2000 ? -2000 : a, 0);
}

// Splits a positive finite number a into m 2^e with m in [sqrt(1/2), sqrt(2)).
struct Split32 {
  float m, e;
};
inline Split32 split(float a) {
  bool tiny = a < 0x1p-126F;
  uint32_t bits = std::bit_cast<uint32_t>(tiny ? a * 0x1p24F : a);
  uint32_t biased = (bits + 0x00cafb0dU) >> 23;  // 128 too high, counted from sqrt(1/2)
  float m = std::bit_cast<float>(bits - ((biased - 128) << 23));
  return {m, static_cast<float>(static_cast<int32_t>(biased) - (tiny ? 152 : 128))};
}
struct Split64 {
  double m, e;
};
inline Split64 split(double a) {
  bool tiny = a < 0x1p-1022;
  uint64_t bits = std::bit_cast<uint64_t>(tiny ? a * 0x1p54 : a);
  uint64_t biased = (bits + 0x00195f619980c433U) >> 52;  // 1024 too high
  double m = std::bit_cast<double>(bits - ((biased - 1024) << 52));
  return {m, static_cast<double>(static_cast<int64_t>(biased) - (tiny ? 1078 : 1024))};
}

// Returns the logarithm of a number that is not positive and finite: -inf for zeros, NaN for negative
// numbers, and infinity and NaN themselves.
template <class T>
T log2_of_special(T a) {
  return a == 0 ? T(-kInfinity) : a > 0 ? a : T(kNaN);
}

inline float log2(float a) {
  if (!(a > 0 && a < std::numeric_limits<float>::infinity())) return log2_of_special(a);
  auto [m, e] = split(a);
  float f = m - 1;
  // f / ln 2 in two parts, and the remaining terms of the series.
  constexpr float kRest[] = {-0x1.715476p-1F, 0x1.ec7094p-2F, -0x1.71548p-2F,  0x1.277c3ep-2F,
                             -0x1.ec7732p-3F, 0x1.a4838p-3F,  -0x1.6efd84p-3F, 0x1.5d018cp-3F,
                             -0x1.5579e8p-3F, 0x1.900022p-4F};
  float u = f * 0x1.715476p+0F;
  float u_low = std::fma(f, 0x1.4ae0cp-26F, std::fma(f, 0x1.715476p+0F, -u));
  float square = f * f;
  float square_low = std::fma(f, f, -square);
  float series = polynomial(f, kRest);
  float rest = std::fma(square, series, std::fma(square_low, series, u_low));
  float sum = e + u;
  float sum_low = (e - sum) + u;
  return sum + (sum_low + rest);
}

// The logarithm of a positive finite number, with a relative error of 2^-64.
struct Sum64 {
  double high, low;
};
inline Sum64 log2_as_sum(double a) {
  auto [m, e] = split(a);
  // s = (m - 1) / (m + 1); the logarithm is s (c1 + z (c3 + z (…))) with z = s^2.
  double f = m - 1;
  double d = m + 1;
  double d_low = m - (d - 1);
  double s = f / d;
  double s_low = std::fma(-s, d_low, std::fma(-s, d, f)) / d;
  double z = s * s;
  double z_low = std::fma(s + s, s_low, std::fma(s, s, -z));
  constexpr double kRest[] = {0x1.2776c50ef9bfep-1, 0x1.a61762a7aded7p-2, 0x1.484b13d7c08f5p-2,
                              0x1.0c9a8498b7166p-2, 0x1.c68f5747c21bfp-3, 0x1.89f36a2f5c62bp-3,
                              0x1.5baab8cdfc056p-3, 0x1.34f27bed947d4p-3, 0x1.3dfca5f507a31p-3};
  double tail = z * polynomial(z, kRest);
  double p = 0x1.ec709dc3a03fdp-1 + tail;
  double p_low = ((0x1.ec709dc3a03fdp-1 - p) + tail) + 0x1.d27f05548af0cp-55;
  double q = z * p;
  double q_low = std::fma(z, p_low, std::fma(z_low, p, std::fma(z, p, -q)));
  double t = 0x1.71547652b82fep+1 + q;
  double t_low = ((0x1.71547652b82fep+1 - t) + q) + (q_low + 0x1.777d0ffda0d24p-55);
  double l = s * t;
  double l_low = std::fma(s, t_low, std::fma(s_low, t, std::fma(s, t, -l)));
  double sum = e + l;
  double sum_low = ((e - sum) + l) + l_low;
  double high = sum + sum_low;
  return {high, (sum - high) + sum_low};
}

inline double log2(double a) {
  if (!(a > 0 && a < kInfinity)) return log2_of_special(a);
  return log2_as_sum(a).high;
}

// Follows C's pow in all cases: 1 for exponent 0 or base 1, even with NaN; NaN for negative bases with
// fractional exponents; odd powers of a negative zero or base are negative.
inline double pow(double a, double b) {
  double size = std::fabs(a);
  bool ordinary = size > 0 && size < kInfinity;
  // An exponent beyond 2^70 makes every power except that of 1 overflow or vanish, as 2^70 does.
  double exponent = b > 0x1p70 ? 0x1p70 : b < -0x1p70 ? -0x1p70 : b;
  auto [log, log_low] = log2_as_sum(ordinary ? size : 1.0);
  double p = exponent * log;
  double p_low = std::fma(exponent, log_low, std::fma(exponent, log, -p));
  bool far = std::fabs(p) >= 2000;
  double power = exp2_of_sum(far ? std::copysign(2000.0, p) : p, far ? 0 : p_low);
  // Zeros and infinities, to any power.
  double extreme = (size > 1) == (b > 0) ? kInfinity : 0;
  double magnitude = ordinary ? power : extreme;
  bool whole = std::nearbyint(b) == b;
  double half = b * 0.5;
  bool odd = whole && std::nearbyint(half) != half;
  bool minus = std::signbit(a);
  double result = minus && odd ? -magnitude : magnitude;
  if (a < 0 && size < kInfinity && !whole) result = kNaN;
  if (a != a || b != b) result = kNaN;
  return b == 0 || a == 1 ? 1 : result;
}
inline float pow(float a, float b) {
  return static_cast<float>(pow(static_cast<double>(a), static_cast<double>(b)));
}

}  // namespace stepfuse::sem
