// The device code that every generated kernel shares; stands after abi.hpp, inside namespace
// stepfuse. Knows abi.hpp and nothing else: a header of the toolkit would cost more than it saves.

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

// ---- values: what the machine does not define as the language does

// A float below f32 is its bits. The emitter declares those that a step meets and that have no
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

// The bits of one value as another's.
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

// Truncate, saturate, NaN -> 0.
SF_DEVICE i32 i32_from(float v) { return v != v ? 0 : __float2int_rz(v); }
SF_DEVICE i32 i32_from(double v) { return v != v ? 0 : __double2int_rz(v); }
SF_DEVICE i64 i64_from(float v) { return v != v ? 0 : __float2ll_rz(v); }
SF_DEVICE i64 i64_from(double v) { return v != v ? 0 : __double2ll_rz(v); }

// Integers wrap.
SF_DEVICE float add(float a, float b) { return a + b; }
SF_DEVICE double add(double a, double b) { return a + b; }
SF_DEVICE i32 add(i32 a, i32 b) { return i32(u32(a) + u32(b)); }
SF_DEVICE i64 add(i64 a, i64 b) { return i64(u64(a) + u64(b)); }
SF_DEVICE i32 sub(i32 a, i32 b) { return i32(u32(a) - u32(b)); }
SF_DEVICE i64 sub(i64 a, i64 b) { return i64(u64(a) - u64(b)); }
SF_DEVICE i32 mul(i32 a, i32 b) { return i32(u32(a) * u32(b)); }
SF_DEVICE i64 mul(i64 a, i64 b) { return i64(u64(a) * u64(b)); }
// By less than the width.
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

// Code tables: a code within 0 ... last, and one found down a tree of bounds.
SF_DEVICE i32 code_within(i32 code, i32 last) { return code < 0 ? 0 : code > last ? last : code; }
template <u32 kNodes>
SF_DEVICE i32 code_of(const float (&tree)[kNodes], float x) {
  u32 k = 1;
#pragma unroll
  for (u32 level = 1; level < kNodes; level *= 2) k = 2 * k + (tree[k] <= x ? 1 : 0);
  return i32(k - kNodes);
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
SF_DEVICE i32 minimum(i32 a, i32 b) { return a < b ? a : b; }
SF_DEVICE i64 minimum(i64 a, i64 b) { return a < b ? a : b; }
SF_DEVICE i32 maximum(i32 a, i32 b) { return a > b ? a : b; }
SF_DEVICE i64 maximum(i64 a, i64 b) { return a > b ? a : b; }

// The larger one of `a`, which has no sign, and |v|; NaN if one of them is.
SF_DEVICE float most(float a, float v) {
#if __CUDA_ARCH__ >= 800
  float r;
  asm("{.reg .f32 size; abs.f32 size, %2; max.NaN.f32 %0, %1, size;}" : "=f"(r) : "f"(a), "f"(v));
  return r;
#else
  return a != a || absolute(v) <= a ? a : absolute(v);
#endif
}

// By repeated squaring, low bit first.
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

// Where arguments stand: in tables, or in the kernel's own parameter.
SF_DEVICE const u64* step_args_of(const abi::DeviceContext& ctx) {
  return ctx.step.step_args != nullptr ? ctx.step.step_args : ctx.inline_args;
}
SF_DEVICE const u64* group_args_of(const abi::DeviceContext& ctx, u32 step_count, u32 first) {
  const u64* const all =
      ctx.step.step_args != nullptr ? ctx.step.group_args : ctx.inline_args + step_count;
  return all + first;
}
template <class T>
SF_DEVICE T arg(u64 raw) {
  T v;
  from_raw(raw, v);
  return v;
}

// A pointer out of a table: told to be global, or its accesses would be generic.
template <class T>
SF_DEVICE T* global(void* const* table, u64 i) {
  void* p = table[i];
  __builtin_assume(__isGlobal(p));
  return static_cast<T*>(p);
}

// ---- arrays: how memory is accessed

// An address that ld.global and st.global take.
template <class T>
SF_DEVICE u64 address_of(const T* p) {
  return __cvta_generic_to_global(p);
}

// One access of kWords words. Written out, because what is read through a pointer is waited for where
// the compiler likes, and a load that waits keeps the next from starting. `kHint1` … `kHint8` name the
// operand with the cache policy, if there is one.
#define SF_ACCESS(Name, kLoad, kStore, kPolicy, kHint1, kHint2, kHint4, kHint8)                    \
  struct Name {                                                                                    \
    template <int kWords>                                                                          \
    static SF_DEVICE void load(u64 p, u32* w) {                                                    \
      const u64 policy = kPolicy;                                                                  \
      if constexpr (kWords == 8 && __CUDA_ARCH__ < 1000) {                                         \
        load<4>(p, w);                                                                             \
        load<4>(p + 16, w + 4);                                                                    \
      } else if constexpr (kWords == 8) {                                                          \
        asm volatile("ld.global" kLoad ".v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8]" kHint8 ";" \
                     : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]), "=r"(w[4]), "=r"(w[5]),     \
                       "=r"(w[6]), "=r"(w[7])                                                      \
                     : "l"(p), "l"(policy)                                                         \
                     : "memory");                                                                  \
      } else if constexpr (kWords == 4) {                                                          \
        asm volatile("ld.global" kLoad ".v4.b32 {%0, %1, %2, %3}, [%4]" kHint4 ";"                 \
                     : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])                              \
                     : "l"(p), "l"(policy)                                                         \
                     : "memory");                                                                  \
      } else if constexpr (kWords == 2) {                                                          \
        asm volatile("ld.global" kLoad ".v2.b32 {%0, %1}, [%2]" kHint2 ";"                         \
                     : "=r"(w[0]), "=r"(w[1])                                                      \
                     : "l"(p), "l"(policy)                                                         \
                     : "memory");                                                                  \
      } else {                                                                                     \
        asm volatile("ld.global" kLoad ".b32 %0, [%1]" kHint1 ";"                                  \
                     : "=r"(w[0])                                                                  \
                     : "l"(p), "l"(policy)                                                         \
                     : "memory");                                                                  \
      }                                                                                            \
    }                                                                                              \
    template <int kWords>                                                                          \
    static SF_DEVICE void store(u64 p, const u32* w) {                                             \
      const u64 policy = kPolicy;                                                                  \
      if constexpr (kWords == 8 && __CUDA_ARCH__ < 1000) {                                         \
        store<4>(p, w);                                                                            \
        store<4>(p + 16, w + 4);                                                                   \
      } else if constexpr (kWords == 8) {                                                          \
        asm volatile("st.global" kStore ".v8.b32 [%8], {%0, %1, %2, %3, %4, %5, %6, %7}" kHint8    \
                     ";"                                                                           \
                     :                                                                             \
                     : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(w[4]), "r"(w[5]),           \
                       "r"(w[6]), "r"(w[7]), "l"(p), "l"(policy)                                   \
                     : "memory");                                                                  \
      } else if constexpr (kWords == 4) {                                                          \
        asm volatile("st.global" kStore ".v4.b32 [%4], {%0, %1, %2, %3}" kHint4 ";"                \
                     :                                                                             \
                     : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "l"(p), "l"(policy)             \
                     : "memory");                                                                  \
      } else if constexpr (kWords == 2) {                                                          \
        asm volatile("st.global" kStore ".v2.b32 [%2], {%0, %1}" kHint2 ";"                        \
                     :                                                                             \
                     : "r"(w[0]), "r"(w[1]), "l"(p), "l"(policy)                                   \
                     : "memory");                                                                  \
      } else {                                                                                     \
        asm volatile("st.global" kStore ".b32 [%1], %0" kHint1 ";"                                 \
                     :                                                                             \
                     : "r"(w[0]), "l"(p), "l"(policy)                                              \
                     : "memory");                                                                  \
      }                                                                                            \
    }                                                                                              \
  }
// How arrays are accessed: those that the step loads again, and the others by the emitter's option.
SF_ACCESS(Plain, "", "", 0, "", "", "", "");
SF_ACCESS(Streaming, ".cs", ".cs", 0, "", "", "", "");
SF_DEVICE u64 evict_first() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 0f3F800000;" : "=l"(policy));
  return policy;
}
SF_ACCESS(EvictFirst, ".L2::cache_hint", ".L2::cache_hint", evict_first(), ", %2", ", %3", ", %5",
          ", %9");

// One element, if it is element k of `length`; else zero, and nothing is accessed.
template <class T>
SF_DEVICE u32 load_if(u64 p, i32 k, i32 length) {
  u32 v = 0;
  if constexpr (sizeof(T) == 4) {
    asm volatile("{.reg .pred in; setp.lt.u32 in, %1, %2; @in ld.global.b32 %0, [%3];}"
                 : "+r"(v)
                 : "r"(k), "r"(length), "l"(p)
                 : "memory");
  } else if constexpr (sizeof(T) == 2) {
    asm volatile("{.reg .pred in; setp.lt.u32 in, %1, %2; @in ld.global.u16 %0, [%3];}"
                 : "+r"(v)
                 : "r"(k), "r"(length), "l"(p)
                 : "memory");
  } else {
    asm volatile("{.reg .pred in; setp.lt.u32 in, %1, %2; @in ld.global.u8 %0, [%3];}"
                 : "+r"(v)
                 : "r"(k), "r"(length), "l"(p)
                 : "memory");
  }
  return v;
}
template <class T>
SF_DEVICE void store_if(u64 p, u32 v, i32 k, i32 length) {
  if constexpr (sizeof(T) == 4) {
    asm volatile("{.reg .pred in; setp.lt.u32 in, %1, %2; @in st.global.b32 [%3], %0;}" ::"r"(v),
                 "r"(k), "r"(length), "l"(p)
                 : "memory");
  } else if constexpr (sizeof(T) == 2) {
    asm volatile("{.reg .pred in; setp.lt.u32 in, %1, %2; @in st.global.u16 [%3], %0;}" ::"r"(v),
                 "r"(k), "r"(length), "l"(p)
                 : "memory");
  } else {
    asm volatile("{.reg .pred in; setp.lt.u32 in, %1, %2; @in st.global.u8 [%3], %0;}" ::"r"(v),
                 "r"(k), "r"(length), "l"(p)
                 : "memory");
  }
}

// ---- tiles: what a thread loads and stores at once, as words

SF_DEVICE void from_bits(u32 bits, float& v) { v = __uint_as_float(bits); }
SF_DEVICE void from_bits(u32 bits, i32& v) { v = i32(bits); }
SF_DEVICE void from_bits(u32 bits, u8& v) { v = u8(bits); }
SF_DEVICE void from_bits(u32 bits, i8& v) { v = i8(bits); }
SF_DEVICE void from_bits(u32 bits, i16& v) { v = i16(bits); }
SF_DEVICE void from_bits(u32 bits, bool& v) { v = (bits & 0xffu) != 0; }
SF_DEVICE u32 bits_of(float v) { return __float_as_uint(v); }
SF_DEVICE u32 bits_of(i32 v) { return u32(v); }
SF_DEVICE u32 bits_of(u8 v) { return v; }
SF_DEVICE u32 bits_of(i8 v) { return u8(v); }
SF_DEVICE u32 bits_of(i16 v) { return u16(v); }
SF_DEVICE u32 bits_of(bool v) { return v; }

// Element e of words, low bits first.
template <class T>
SF_DEVICE T get(const u32* words, i32 e) {
  constexpr i32 kPerWord = 4 / sizeof(T);
  T v;
  from_bits(words[e / kPerWord] >> e % kPerWord * 8 * sizeof(T), v);
  return v;
}
// In rising order of e, the first of a word overwrites it.
template <class T>
SF_DEVICE void put(u32* words, i32 e, u32 bits) {
  constexpr i32 kPerWord = 4 / sizeof(T);
  u32& word = words[e / kPerWord];
  word = e % kPerWord == 0 ? bits : word | bits << e % kPerWord * 8 * sizeof(T);
}

// How many elements before p the last boundary of a tile is.
template <class T, int kTile>
SF_DEVICE i32 skew_of(u64 p) {
  return i32(u32(p) % (kTile * sizeof(T)) / sizeof(T));
}
// Where tiles can be accessed whole: those that begin at 0 … room - 1. None, if the array is aligned
// otherwise than the tiles, which begin `skew` elements before p.
template <class T, int kTile>
SF_DEVICE u32 room_of(u64 p, i32 skew, i32 length) {
  const bool aligned = (u32(p) - u32(skew) * sizeof(T)) % (kTile * sizeof(T)) == 0;
  return aligned && length >= kTile ? length - kTile + 1 : 0;
}

// For uses of a value's place: those outside of [0, length) stand for the nearest one inside.
SF_DEVICE i32 inside(i32 k, i32 length) {
  const i32 below = k < length ? k : length - 1;
  return below < 0 ? 0 : below;
}

// Philox4x32-10 (ir/random.hpp): what four elements of a tensor share.
struct Random {
  u64 seed;
  u32 stream, tensor, count;

  SF_DEVICE Random(i64 seed, i64 count, i32 stream, u32 tensor)
      : seed(u64(seed)), stream(u32(stream) & 0xffffu), tensor(tensor), count(u32(count)) {}
  SF_DEVICE void block(u64 number, u32* c) const {
    c[0] = u32(number);
    c[1] = u32(number >> 32) << 16 | stream;
    c[2] = tensor;
    c[3] = count;
    u32 k0 = u32(seed);
    u32 k1 = u32(seed >> 32);
#pragma unroll
    for (i32 round = 0; round < 10; ++round) {
      const u64 a = u64(0xd2511f53u) * c[0];
      const u64 b = u64(0xcd9e8d57u) * c[2];
      c[0] = u32(b >> 32) ^ c[1] ^ k0;
      c[1] = u32(b);
      c[2] = u32(a >> 32) ^ c[3] ^ k1;
      c[3] = u32(a);
      k0 += 0x9e3779b9u;
      k1 += 0xbb67ae85u;
    }
  }
  // Of the elements of tiles, the first of which begins at this position of the full tensor. Blocks begin
  // with tiles, unless the arrays are aligned otherwise.
  template <int kTile, int kTiles>
  SF_DEVICE void draw(u32* out, i64 position, i32 stride) const {
    const u32 skew = u32(position) & 3;
#pragma unroll
    for (i32 k = 0; k < kTile * kTiles; k += 4) {
      const i64 at = position + k / kTile * stride + k % kTile;
      u32 words[8];
      block(u64(at >> 2), words);
      if (skew != 0) {
        block(u64(at >> 2) + 1, words + 4);
#pragma unroll
        for (i32 w = 0; w < 6; ++w) words[w] = (skew & 1) != 0 ? words[w + 1] : words[w];
#pragma unroll
        for (i32 w = 0; w < 4; ++w) words[w] = (skew & 2) != 0 ? words[w + 2] : words[w];
      }
#pragma unroll
      for (i32 w = 0; w < 4; ++w) out[k + w] = words[w];
    }
  }
};

// Loads kTiles tiles, from element `first` on and every `stride`. Tiles that are not whole are
// accessed element by element; elements outside of [0, length) are zero.
template <class Access, class T, int kTile, int kTiles>
SF_DEVICE void load(u32* out, u64 p, u32 room, i32 first, i32 stride, i32 length) {
  constexpr i32 kWords = kTile * sizeof(T) / 4;
#pragma unroll
  for (i32 u = 0; u < kTiles; ++u) {
    const i32 k = first + u * stride;
    const u64 at = p + i64(k) * i64(sizeof(T));
    if (u32(k) < room) {
      Access::template load<kWords>(at, out + u * kWords);
    } else {
#pragma unroll
      for (i32 s = 0; s < kTile; ++s) {
        put<T>(out + u * kWords, s, load_if<T>(at + s * sizeof(T), k + s, length));
      }
    }
  }
}

// The same way back; bit e of `mask` says whether element e of the tiles is stored at all.
template <class Access, class T, int kTile, int kTiles>
SF_DEVICE void store(const u32* in, u64 p, u32 room, i32 first, i32 stride, i32 length,
                     u32 mask = ~0u) {
  constexpr i32 kWords = kTile * sizeof(T) / 4;
  constexpr u32 kAll = (1u << kTile) - 1;
#pragma unroll
  for (i32 u = 0; u < kTiles; ++u) {
    const i32 k = first + u * stride;
    const u64 at = p + i64(k) * i64(sizeof(T));
    if (u32(k) < room && (mask >> u * kTile & kAll) == kAll) {
      Access::template store<kWords>(at, in + u * kWords);
    } else {
#pragma unroll
      for (i32 s = 0; s < kTile; ++s) {
        const bool wanted = (mask >> (u * kTile + s) & 1) != 0;
        store_if<T>(at + s * sizeof(T), bits_of(get<T>(in + u * kWords, s)), k + s,
                    wanted ? length : 0);
      }
    }
  }
}
