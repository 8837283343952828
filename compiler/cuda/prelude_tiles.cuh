// The device code by which a thread loads and stores the elements of a chunk; follows prelude.cuh and
// precedes prelude_reduce.cuh. Knows prelude.cuh.

// ---- arrays: how memory is accessed

// Returns an address for ld.global and st.global.
template <class T>
SF_DEVICE u64 address_of(const T* p) {
  return __cvta_generic_to_global(p);
}

// Returns the bytes of this many elements.
template <class T>
SF_DEVICE u64 bytes_of(i32 elements) {
  return u64(i64(elements) * i64(sizeof(T)));
}

// One access of kWords words. It is assembly, because the compiler may wait for a load through a pointer
// anywhere, and a load that waits delays the next one. `kHint1` … `kHint8` name the operand with the cache
// policy, if there is one.
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

// Loads element k if it is below `length`; otherwise returns zero and accesses nothing.
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

// ---- tiles: the elements that a thread loads and stores at once, as words

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

// Returns element e of words, low bits first.
template <class T>
SF_DEVICE T get(const u32* words, i32 e) {
  constexpr i32 kPerWord = 4 / sizeof(T);
  T v;
  from_bits(words[e / kPerWord] >> e % kPerWord * 8 * sizeof(T), v);
  return v;
}
// Call it for ascending e: the first element of a word overwrites the word.
template <class T>
SF_DEVICE void put(u32* words, i32 e, u32 bits) {
  constexpr i32 kPerWord = 4 / sizeof(T);
  u32& word = words[e / kPerWord];
  word = e % kPerWord == 0 ? bits : word | bits << e % kPerWord * 8 * sizeof(T);
}

// Rounds two values to 16 bits together. Every NaN becomes 0x7fff, whatever the conversion makes of it.
#define SF_PAIR(T)                                                                             \
  SF_DEVICE u32 pair_of(float low, float high, T) {                                            \
    u32 pair;                                                                                  \
    asm("{.reg .b32 both; cvt.rn." #T "x2.f32 both, %2, %1; max.NaN." #T "x2 %0, both, both;}" \
        : "=r"(pair)                                                                           \
        : "f"(low), "f"(high));                                                                \
    return pair;                                                                               \
  }
#if __CUDA_ARCH__ >= 800
SF_PAIR(f16)
SF_PAIR(bf16)
#else
SF_DEVICE u32 pair_of(float low, float high, f16) {
  return bits_of(f16_from(low)) | bits_of(f16_from(high)) << 16;
}
SF_DEVICE u32 pair_of(float low, float high, bf16) {
  return bits_of(bf16_from(low)) | bits_of(bf16_from(high)) << 16;
}
#endif
template <class T, i32 kValues>
SF_DEVICE void round_pairs(u32* words, const float (&values)[kValues]) {
#pragma unroll
  for (i32 k = 0; k < kValues; k += 2) words[k / 2] = pair_of(values[k], values[k + 1], T{});
}

// Returns the number of elements between p and the last boundary of a tile before it.
template <class T, int kTile>
SF_DEVICE i32 skew_of(u64 p) {
  return i32(u32(p) % (kTile * sizeof(T)) / sizeof(T));
}
template <class T, int kTile>
SF_DEVICE bool is_aligned(u64 p) {
  return u32(p) % (kTile * sizeof(T)) == 0;
}
// Tiles that start at element 0 … room - 1 lie inside of [0, length).
template <int kTile>
SF_DEVICE u32 room_of(i32 length) {
  return length >= kTile ? length - kTile + 1 : 0;
}

// Keeps a value in its register. The compiler would compute it again at each use.
SF_DEVICE i32 kept(i32 v) {
  i32 same;
  asm volatile("mov.b32 %0, %1;" : "=r"(same) : "r"(v));
  return same;
}

// Returns a valid position: positions outside of [0, length) become the nearest one inside.
SF_DEVICE i32 inside(i32 k, i32 length) {
  const i32 below = k < length ? k : length - 1;
  return below < 0 ? 0 : below;
}

// Philox4x32-10 (ir/semantics/random.hpp): the part that four elements of a tensor share.
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
  // Draws for the elements of tiles; the first tile starts at this position of the full tensor. Blocks
  // start with tiles, unless the arrays are aligned differently.
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

// Loads kTiles whole tiles: the first from p on, the others every `stride` elements.
template <class Access, class T, int kTile, int kTiles>
SF_DEVICE void load_whole(u32* out, u64 p, i32 stride) {
  constexpr i32 kWords = kTile * sizeof(T) / 4;
#pragma unroll
  for (i32 u = 0; u < kTiles; ++u) {
    Access::template load<kWords>(p + bytes_of<T>(u * stride), out + u * kWords);
  }
}
template <class Access, class T, int kTile, int kTiles>
SF_DEVICE void store_whole(const u32* in, u64 p, i32 stride) {
  constexpr i32 kWords = kTile * sizeof(T) / 4;
#pragma unroll
  for (i32 u = 0; u < kTiles; ++u) {
    Access::template store<kWords>(p + bytes_of<T>(u * stride), in + u * kWords);
  }
}

// Prefetches tiles that are loaded later, so that they are in the L2 cache by then. Does nothing on devices
// whose cache is too small for the requests of all blocks.
template <class T, int kTile, int kTiles>
SF_DEVICE void prefetch(u64 p, i32 stride) {
#if __CUDA_ARCH__ == 800 || __CUDA_ARCH__ >= 890
#pragma unroll
  for (i32 u = 0; u < kTiles; ++u) {
    asm volatile("prefetch.global.L2 [%0];" : : "l"(p + bytes_of<T>(u * stride)));
  }
#endif
}

// Loads whole tiles, too, but p may be aligned differently from the tiles: then it loads elements one by one.
template <class Access, class T, int kTile, int kTiles>
SF_DEVICE void load_whole(u32* out, u64 p, i32 stride, bool aligned) {
  if (aligned) return load_whole<Access, T, kTile, kTiles>(out, p, stride);
#pragma unroll
  for (i32 e = 0; e < kTile * kTiles; ++e) {
    Access::template load<1>(p + bytes_of<T>(e / kTile * stride + e % kTile), out + e);
  }
}
template <class Access, class T, int kTile, int kTiles>
SF_DEVICE void store_whole(const u32* in, u64 p, i32 stride, bool aligned) {
  if (aligned) return store_whole<Access, T, kTile, kTiles>(in, p, stride);
#pragma unroll
  for (i32 e = 0; e < kTile * kTiles; ++e) {
    Access::template store<1>(p + bytes_of<T>(e / kTile * stride + e % kTile), in + e);
  }
}

// Loads any tiles. The first one starts at element `first` of [0, length). Tiles that are not whole are
// accessed element by element. Elements outside are zero.
template <class Access, class T, int kTile, int kTiles>
SF_DEVICE void load(u32* out, u64 p, i32 first, i32 stride, i32 length) {
  constexpr i32 kWords = kTile * sizeof(T) / 4;
  const u32 room = is_aligned<T, kTile>(p) ? room_of<kTile>(length) : 0;
#pragma unroll
  for (i32 u = 0; u < kTiles; ++u) {
    const i32 k = first + u * stride;
    const u64 at = p + bytes_of<T>(u * stride);
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

// Stores in the same way; bit e of `mask` says whether element e of the tiles is stored at all.
template <class Access, class T, int kTile, int kTiles>
SF_DEVICE void store(const u32* in, u64 p, i32 first, i32 stride, i32 length, u32 mask = ~0u) {
  constexpr i32 kWords = kTile * sizeof(T) / 4;
  constexpr u32 kAll = (1u << kTile) - 1;
  const u32 room = is_aligned<T, kTile>(p) ? room_of<kTile>(length) : 0;
#pragma unroll
  for (i32 u = 0; u < kTiles; ++u) {
    const i32 k = first + u * stride;
    const u64 at = p + bytes_of<T>(u * stride);
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
