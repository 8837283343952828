// The device code that every generated kernel shares; stands after abi.hpp, inside namespace
// stepfuse. Knows abi.hpp and nothing else: a header of the toolkit would cost more than it saves.

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

inline constexpr u32 kThreads = 256;  // of a block; a thread has 8 of the 2,048 lanes of a piece
inline constexpr u32 kWarp = 32;
inline constexpr u32 kWarps = kThreads / kWarp;
inline constexpr u32 kPieceElements = 16384;
inline constexpr u32 kNone = ~0u;

#define SF_DEVICE __device__ __forceinline__

// ---- values: what the machine does not define as the language does

struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};

SF_DEVICE bool is_finite(float v) { return (__float_as_uint(v) & 0x7fffffffu) < 0x7f800000u; }
SF_DEVICE bool is_finite(double v) {
  return (u64(__double_as_longlong(v)) & 0x7fffffffffffffffull) < 0x7ff0000000000000ull;
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

// Truncate, saturate, NaN -> 0.
SF_DEVICE i32 i32_from(float v) { return v != v ? 0 : __float2int_rz(v); }
SF_DEVICE i32 i32_from(double v) { return v != v ? 0 : __double2int_rz(v); }
SF_DEVICE i64 i64_from(float v) { return v != v ? 0 : __float2ll_rz(v); }
SF_DEVICE i64 i64_from(double v) { return v != v ? 0 : __double2ll_rz(v); }

// Integers wrap; x/0 = 0, MIN/-1 = MIN.
SF_DEVICE float add(float a, float b) { return a + b; }
SF_DEVICE i32 add(i32 a, i32 b) { return i32(u32(a) + u32(b)); }
SF_DEVICE i64 add(i64 a, i64 b) { return i64(u64(a) + u64(b)); }
SF_DEVICE i32 sub(i32 a, i32 b) { return i32(u32(a) - u32(b)); }
SF_DEVICE i64 sub(i64 a, i64 b) { return i64(u64(a) - u64(b)); }
SF_DEVICE i32 mul(i32 a, i32 b) { return i32(u32(a) * u32(b)); }
SF_DEVICE i64 mul(i64 a, i64 b) { return i64(u64(a) * u64(b)); }
template <class T>
SF_DEVICE T quotient(T a, T b) {
  if (b == 0) return 0;
  return b == -1 ? sub(T(0), a) : a / b;
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

template <class T>
SF_DEVICE T step_arg(const abi::DeviceContext& ctx, u32 i) {
  T v;
  from_raw(ctx.step.step_args != nullptr ? ctx.step.step_args[i] : ctx.inline_args[i], v);
  return v;
}
template <class T>
SF_DEVICE T group_arg(const abi::DeviceContext& ctx, u32 step_count, u32 i) {
  T v;
  from_raw(ctx.step.step_args != nullptr ? ctx.step.group_args[i] : ctx.inline_args[step_count + i],
           v);
  return v;
}

// A pointer out of a table: told to be global, or its accesses would be generic.
template <class T>
SF_DEVICE T* global(void* const* table, u64 i) {
  void* p = table[i];
  __builtin_assume(__isGlobal(p));
  return static_cast<T*>(p);
}

// ---- tiles: what a thread loads and stores at once

SF_DEVICE void unpack(u32 word, float* v) { v[0] = __uint_as_float(word); }
SF_DEVICE void unpack(u32 word, i32* v) { v[0] = i32(word); }
SF_DEVICE void unpack(u32 word, f16* v) {
  v[0].bits = u16(word);
  v[1].bits = u16(word >> 16);
}
SF_DEVICE void unpack(u32 word, bf16* v) {
  v[0].bits = u16(word);
  v[1].bits = u16(word >> 16);
}
SF_DEVICE void unpack(u32 word, bool* v) {
  v[0] = (word & 0xffu) != 0;
  v[1] = (word & 0xff00u) != 0;
  v[2] = (word & 0xff0000u) != 0;
  v[3] = (word & 0xff000000u) != 0;
}
SF_DEVICE u32 pack(const float* v) { return __float_as_uint(v[0]); }
SF_DEVICE u32 pack(const i32* v) { return u32(v[0]); }
SF_DEVICE u32 pack(const f16* v) { return u32(v[0].bits) | u32(v[1].bits) << 16; }
SF_DEVICE u32 pack(const bf16* v) { return u32(v[0].bits) | u32(v[1].bits) << 16; }
SF_DEVICE u32 pack(const bool* v) {
  return u32(v[0]) | u32(v[1]) << 8 | u32(v[2]) << 16 | u32(v[3]) << 24;
}

template <int kWords>
SF_DEVICE void load_words(const void* p, u32* w) {
  if constexpr (kWords == 8) {
    load_words<4>(p, w);
    load_words<4>(static_cast<const uint4*>(p) + 1, w + 4);
  } else if constexpr (kWords == 4) {
    const uint4 v = *static_cast<const uint4*>(p);
    w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
  } else if constexpr (kWords == 2) {
    const uint2 v = *static_cast<const uint2*>(p);
    w[0] = v.x, w[1] = v.y;
  } else {
    w[0] = *static_cast<const u32*>(p);
  }
}
template <int kWords>
SF_DEVICE void store_words(void* p, const u32* w) {
  if constexpr (kWords == 8) {
    store_words<4>(p, w);
    store_words<4>(static_cast<uint4*>(p) + 1, w + 4);
  } else if constexpr (kWords == 4) {
    *static_cast<uint4*>(p) = make_uint4(w[0], w[1], w[2], w[3]);
  } else if constexpr (kWords == 2) {
    *static_cast<uint2*>(p) = make_uint2(w[0], w[1]);
  } else {
    *static_cast<u32*>(p) = w[0];
  }
}

// Bytes of the widest access that a tile of kTile elements of T is cut into.
template <int kTile, class T>
SF_DEVICE constexpr u32 access_bytes() {
  return kTile * sizeof(T) < 16 ? kTile * sizeof(T) : 16;
}
// How many elements before p the last boundary of a tile is.
template <int kTile, class T>
SF_DEVICE i32 skew_of(const T* p) {
  return i32(u64(p) % access_bytes<kTile, T>() / sizeof(T));
}
// Whether tiles that begin `skew` elements before p can be accessed whole.
template <int kTile, class T>
SF_DEVICE bool whole_tiles(const T* p, i32 skew) {
  return (u64(p) - u64(skew) * sizeof(T)) % access_bytes<kTile, T>() == 0;
}

// A tile that is not whole (the first and the last one of a chunk, or an array that is aligned
// otherwise) is accessed element by element, without a branch: elements outside of [0, length) stand
// for the nearest one inside, whose value they compute and store once more.
SF_DEVICE i32 inside(i32 k, i32 length) {
  const i32 below = k < length ? k : length - 1;
  return below < 0 ? 0 : below;
}

// Loads kTiles tiles, from element `first` on and every `stride`. Those that begin at `length` or
// later are somebody else's or nobody's: zero.
template <int kTile, int kTiles, class T>
SF_DEVICE void load(T* out, const T* p, bool whole, i32 first, i32 stride, i32 length) {
  constexpr i32 kWords = kTile * sizeof(T) / 4;
#pragma unroll
  for (i32 u = 0; u < kTiles; ++u) {
    const i32 k = first + u * stride;
    T* const tile = out + u * kTile;
    if (u > 0 && k >= length) {
#pragma unroll
      for (i32 s = 0; s < kTile; ++s) tile[s] = T{};
    } else if (whole && k >= 0 && k + kTile <= length) {
      u32 words[kWords];
      load_words<kWords>(p + k, words);
#pragma unroll
      for (i32 w = 0; w < kWords; ++w) unpack(words[w], tile + w * (4 / sizeof(T)));
    } else {
#pragma unroll
      for (i32 s = 0; s < kTile; ++s) tile[s] = p[inside(k + s, length)];
    }
  }
}

// The same way back.
template <int kTile, int kTiles, class T>
SF_DEVICE void store(const T* in, T* p, bool whole, i32 first, i32 stride, i32 length) {
  constexpr i32 kWords = kTile * sizeof(T) / 4;
#pragma unroll
  for (i32 u = 0; u < kTiles; ++u) {
    const i32 k = first + u * stride;
    const T* const tile = in + u * kTile;
    if (u > 0 && k >= length) continue;
    if (whole && k >= 0 && k + kTile <= length) {
      u32 words[kWords];
#pragma unroll
      for (i32 w = 0; w < kWords; ++w) words[w] = pack(tile + w * (4 / sizeof(T)));
      store_words<kWords>(p + k, words);
    } else {
#pragma unroll
      for (i32 s = 0; s < kTile; ++s) p[inside(k + s, length)] = tile[s];
    }
  }
}
// Under a predicate of each element: bit e of `mask` for element e of the tiles.
template <int kTile, int kTiles, class T>
SF_DEVICE void store_if(u32 mask, const T* in, T* p, i32 first, i32 stride, i32 length) {
#pragma unroll
  for (i32 e = 0; e < kTile * kTiles; ++e) {
    const i32 k = first + e / kTile * stride + e % kTile;
    if ((mask >> e & 1) != 0 && u32(k) < u32(length)) p[k] = in[e];
  }
}
