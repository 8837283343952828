// The device code that every generated kernel shares; follows abi.hpp, inside namespace stepfuse. Knows
// only abi.hpp: a header of the toolkit would cost more than it saves.

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i8 = signed char;
using i16 = short;
using i32 = int;
using i64 = long long;

inline constexpr u32 kThreads = abi::kBlockThreads;
inline constexpr u32 kWarp = 32;
inline constexpr u32 kWarps = kThreads / kWarp;
inline constexpr u32 kPieceElements = abi::kPieceElements;
inline constexpr u32 kNone = ~0u;

#define SF_DEVICE __device__ __forceinline__

// ---- values: operations that the machine defines differently from the language

// A float below f32 is stored as its bits. The emitter declares the types that a step uses and that have no
// instructions here.
#define SF_STORAGE(T, Word)                                         \
  struct T {                                                        \
    Word bits;                                                      \
  };                                                                \
  SF_DEVICE void from_bits(u32 bits, T& v) { v.bits = Word(bits); } \
  SF_DEVICE u32 bits_of(T v) { return v.bits; }                     \
  template <class I>                                                \
  SF_DEVICE I bits_as(T v) {                                        \
    return v.bits;                                                  \
  }
SF_STORAGE(f16, u16)
SF_STORAGE(bf16, u16)

SF_DEVICE bool is_finite(float v) { return (__float_as_uint(v) & 0x7fffffffu) < 0x7f800000u; }
SF_DEVICE bool is_finite(double v) {
  return (u64(__double_as_longlong(v)) & 0x7fffffffffffffffull) < 0x7ff0000000000000ull;
}

SF_DEVICE float absolute(float v) { return __uint_as_float(__float_as_uint(v) & 0x7fffffffu); }
SF_DEVICE double absolute(double v) {
  return __longlong_as_double(__double_as_longlong(v) & 0x7fffffffffffffffll);
}

SF_DEVICE float f32_from(bf16 h) { return __uint_as_float(u32(h.bits) << 16); }
SF_DEVICE float f32_from(f16 h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h.bits));
  return f;
}
// Every NaN becomes 0x7fff, whatever the conversion makes of it.
SF_DEVICE f16 f16_from(float f) {
  u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return f16{f != f ? u16(0x7fff) : h};
}
SF_DEVICE bf16 bf16_from(float f) {
#if __CUDA_ARCH__ >= 800
  u16 h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
#else
  u32 u = __float_as_uint(f);
  u16 h = u16((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
#endif
  return bf16{f != f ? u16(0x7fff) : h};
}

// Reinterprets the bits of a value.
template <class T>
SF_DEVICE T bits_as(float v) {
  return __float_as_int(v);
}
template <class T>
SF_DEVICE T bits_as(double v) {
  return __double_as_longlong(v);
}
template <class T>
SF_DEVICE T bits_as(i64 v) {
  return __longlong_as_double(v);
}
template <class T>
SF_DEVICE T bits_as(i32 v) {
  if constexpr (sizeof(T) < 4) {
    return T{decltype(T::bits)(u32(v))};
  } else {
    return __int_as_float(v);
  }
}

// Truncate and saturate; NaN becomes 0.
SF_DEVICE i32 i32_from(float v) { return v != v ? 0 : __float2int_rz(v); }
SF_DEVICE i32 i32_from(double v) { return v != v ? 0 : __double2int_rz(v); }
SF_DEVICE i64 i64_from(float v) { return v != v ? 0 : __float2ll_rz(v); }
SF_DEVICE i64 i64_from(double v) { return v != v ? 0 : __double2ll_rz(v); }

// Integers wrap around.
SF_DEVICE float add(float a, float b) { return a + b; }
SF_DEVICE double add(double a, double b) { return a + b; }
SF_DEVICE i32 add(i32 a, i32 b) { return i32(u32(a) + u32(b)); }
SF_DEVICE i64 add(i64 a, i64 b) { return i64(u64(a) + u64(b)); }
SF_DEVICE i32 sub(i32 a, i32 b) { return i32(u32(a) - u32(b)); }
SF_DEVICE i64 sub(i64 a, i64 b) { return i64(u64(a) - u64(b)); }
SF_DEVICE i32 mul(i32 a, i32 b) { return i32(u32(a) * u32(b)); }
SF_DEVICE i64 mul(i64 a, i64 b) { return i64(u64(a) * u64(b)); }
// Shift by less than the width.
SF_DEVICE i32 shifted_left(i32 a, i32 n) { return i32(u32(a) << n); }
SF_DEVICE i64 shifted_left(i64 a, i64 n) { return i64(u64(a) << n); }
SF_DEVICE i32 shifted_right(i32 a, i32 n) { return i32(u32(a) >> n); }
SF_DEVICE i64 shifted_right(i64 a, i64 n) { return i64(u64(a) >> n); }

#define SF_ROUND(T, NAME, INSTRUCTION, R)          \
  SF_DEVICE T NAME(T v) {                          \
    T r;                                           \
    asm(INSTRUCTION " %0, %1;" : "=" R(r) : R(v)); \
    return r;                                      \
  }
SF_ROUND(float, nearest, "cvt.rni.f32.f32", "f")
SF_ROUND(double, nearest, "cvt.rni.f64.f64", "d")
SF_ROUND(float, lower, "cvt.rmi.f32.f32", "f")
SF_ROUND(double, lower, "cvt.rmi.f64.f64", "d")

// Code tables. The whole block copies one into shared memory.
template <u32 kValues>
SF_DEVICE void share(float (&to)[kValues], const float (&from)[kValues]) {
#pragma unroll 1
  for (u32 i = threadIdx.x; i < kValues; i += kThreads) to[i] = from[i];
}
// Limits a code to 0 ... last. A code is found by a line and the bound above it, or in a tree of bounds,
// whose nodes 1 to 3 are also given as numbers.
SF_DEVICE i32 code_within(i32 code, i32 last) { return code < 0 ? 0 : code > last ? last : code; }
template <u32 kNodes>
SF_DEVICE i32 code_of(const float (&tree)[kNodes], float root, float low, float high, float x) {
  u32 k = root <= x ? 3 : 2;
  if (kNodes > 2) k = 2 * k + ((k == 3 ? high : low) <= x ? 1 : 0);
#pragma unroll
  for (u32 level = 4; level < kNodes; level *= 2) k = 2 * k + (tree[k] <= x ? 1 : 0);
  return i32(k - kNodes);
}
template <u32 kLines>
SF_DEVICE i32 guessed_code(const float (&slopes)[kLines], const float (&offsets)[kLines],
                           const float* bounds, float low, float high, float scale, float grain,
                           u32 shift, float center, float x) {
  x = x > low ? x : low;  // also replaces NaN
  x = x < high ? x : high;
  float y = __fmaf_rn(absolute(x), scale, grain);
  u32 line = (__float_as_uint(y) >> shift) % kLines;
  u32 u = __float_as_uint(__fmaf_rn(y, slopes[line], offsets[line]));
  i32 code = __float2int_rz(center + __uint_as_float(u ^ (__float_as_uint(x) & 0x80000000u)));
  return code - (x < bounds[code] ? 1 : 0);
}

// IEEE 754-2019 minimum and maximum: NaN propagates, -0 < +0.
SF_DEVICE bool sign(float v) { return i32(__float_as_uint(v)) < 0; }
SF_DEVICE bool sign(double v) { return __double_as_longlong(v) < 0; }
template <class T>
SF_DEVICE T minimum(T a, T b) {
  if (a != a || b != b) return T(__uint_as_float(0x7fc00000u));
  return a < b || (a == b && sign(a)) ? a : b;
}
template <class T>
SF_DEVICE T maximum(T a, T b) {
  if (a != a || b != b) return T(__uint_as_float(0x7fc00000u));
  return a > b || (a == b && !sign(a)) ? a : b;
}
#if __CUDA_ARCH__ >= 800
#define SF_EXTREME(name, op)                                   \
  SF_DEVICE float name(float a, float b) {                     \
    float r;                                                   \
    asm(op ".NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); \
    return r == r ? r : __uint_as_float(0x7fc00000u);          \
  }
SF_EXTREME(minimum, "min")
SF_EXTREME(maximum, "max")
#endif
SF_DEVICE i32 minimum(i32 a, i32 b) { return a < b ? a : b; }
SF_DEVICE i64 minimum(i64 a, i64 b) { return a < b ? a : b; }
SF_DEVICE i32 maximum(i32 a, i32 b) { return a > b ? a : b; }
SF_DEVICE i64 maximum(i64 a, i64 b) { return a > b ? a : b; }

// Returns the larger one of `a`, which is not negative, and |v|; NaN if either is NaN.
SF_DEVICE float most(float a, float v) {
#if __CUDA_ARCH__ >= 800
  float r;
  asm("{.reg .f32 size; abs.f32 size, %2; max.NaN.f32 %0, %1, size;}" : "=f"(r) : "f"(a), "f"(v));
  return r;
#else
  return a != a || absolute(v) <= a ? a : absolute(v);
#endif
}

// Computes x / d by the reciprocal of a `d` that other elements have as well. Sets `far` if that may round
// differently. compiler/llvm/divide.cpp proves the rest. The sign of a zero is right only with a positive
// divisor.
template <u32 kPower>
SF_DEVICE bool is_within(float v) {  // v > 0 and |log2 v| <= kPower
  return __float_as_uint(v) - ((127 - kPower) << 23) <= (2 * kPower) << 23;
}
SF_DEVICE float divided(float x, float d) {
  const float over = __frcp_rn(d);
  const float q = x * over;
  return __fmaf_rn(-__fmaf_rn(q, d, -x), over, q);
}
SF_DEVICE float divided(float x, float d, bool& far) {
  far |= !is_within<40>(d) || (x != 0 && !is_within<80>(absolute(x)));
  return divided(x, d);
}

// Squares repeatedly, low bit first.
template <class T>
SF_DEVICE T powi(T base, i64 exponent) {
  u64 n = exponent < 0 ? 0 - u64(exponent) : u64(exponent);
  T r = 1;
#pragma unroll 1
  while (n != 0) {
    if (n & 1) r = r * base;
    n >>= 1;
    if (n != 0) base = base * base;
  }
  return exponent < 0 ? T(1) / r : r;
}

// ---- arguments and pointers

SF_DEVICE void from_raw(u64 raw, double& v) { v = __longlong_as_double(i64(raw)); }
SF_DEVICE void from_raw(u64 raw, float& v) { v = __uint_as_float(u32(raw)); }
SF_DEVICE void from_raw(u64 raw, i64& v) { v = i64(raw); }
SF_DEVICE void from_raw(u64 raw, i32& v) { v = i32(u32(raw)); }
SF_DEVICE void from_raw(u64 raw, bool& v) { v = raw != 0; }
SF_DEVICE u64 raw_of(double v) { return u64(__double_as_longlong(v)); }
SF_DEVICE u64 raw_of(float v) { return __float_as_uint(v); }
SF_DEVICE u64 raw_of(i64 v) { return u64(v); }
SF_DEVICE u64 raw_of(i32 v) { return u32(v); }
SF_DEVICE u64 raw_of(bool v) { return v ? 1 : 0; }

// Arguments are in tables or in the kernel's own parameter. Select words and not pointers to them: the
// compiler loads through a pointer that may be either as if it were generic memory.
SF_DEVICE u64 step_arg(const abi::DeviceContext& ctx, u32 i) {
  return ctx.step.step_args != nullptr ? ctx.step.step_args[i] : ctx.inline_args[i];
}
// Arguments per group, followed by those per tensor.
SF_DEVICE u64 member_arg(const abi::DeviceContext& ctx, u32 step_count, u32 i) {
  return ctx.step.step_args != nullptr ? ctx.step.group_args[i] : ctx.inline_args[step_count + i];
}
template <class T>
SF_DEVICE T arg(u64 raw) {
  T v;
  from_raw(raw, v);
  return v;
}

// A pointer from a table. Without the assumption that it is global, its accesses would be generic.
template <class T>
SF_DEVICE T* global(void* const* table, u64 i) {
  void* p = table[i];
  __builtin_assume(__isGlobal(p));
  return static_cast<T*>(p);
}
