// The beginning of every generated C kernel: the tables that it reads, the ops that C defines differently,
// and the canonical fold. Knows nothing.

// Compile with -ffp-contract=off: a product and a sum are never fused unless the step says so.
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

// Not every step uses everything, and some steps compare a value with itself.
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wtautological-compare"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#endif

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// ---- the tables: stepfuse::abi::Context

typedef struct {
  uint32_t tensor, signature, length, slot;
  uint64_t begin;  // first element, from the tensor's base pointers
} sf_chunk;

enum { SF_PRESENT = 1 };
typedef struct {
  uint32_t group, flags;
  uint64_t size, offset, full_size, columns, scratch_base;
  uint32_t id, reserved;
} sf_tensor;

// Part m has members [begin[m], begin[m + 1]) of the list `members`; null stands for 0, 1, 2, …
typedef struct {
  const uint32_t *members, *begin;
  uint32_t count, reserved;
} sf_partition;

typedef struct {
  const sf_chunk* chunks;
  const sf_tensor* tensors;
  const uint64_t* bases;  // [place * tensor_count + tensor]
  void* const* pointers;  // [tensor * buffer count + buffer]
  const uint64_t *step_args, *group_args;
  void *const *states, *const *slots, *const *results;
  uint64_t* scalars;
  void* const* scratch;
  uint32_t chunk_count, tensor_count, group_count, reserved;
  sf_partition parts[15];
} sf_context;

// ---- ops

#define SF_BITS(TO, FROM, NAME)      \
  static inline TO NAME(FROM from) { \
    TO to;                           \
    memcpy(&to, &from, sizeof to);   \
    return to;                       \
  }
SF_BITS(float, uint32_t, sf_float)
SF_BITS(double, uint64_t, sf_double)
SF_BITS(int32_t, float, sf_i32_of_f32_bits)
SF_BITS(float, int32_t, sf_f32_of_i32_bits)
SF_BITS(int64_t, double, sf_i64_of_f64_bits)
SF_BITS(double, int64_t, sf_f64_of_i64_bits)

// An argument is the low bytes of its word.
#define SF_ARGUMENT(T, NAME)                   \
  static inline T NAME(const uint64_t* word) { \
    T v;                                       \
    memcpy(&v, word, sizeof v);                \
    return v;                                  \
  }
SF_ARGUMENT(float, sf_arg_f32)
SF_ARGUMENT(double, sf_arg_f64)
SF_ARGUMENT(int32_t, sf_arg_i32)
SF_ARGUMENT(int64_t, sf_arg_i64)
static inline bool sf_arg_bool(const uint64_t* word) { return (*word & 0xff) != 0; }

// Integers wrap around.
#define SF_INTEGER(T, U, S)                                                \
  static inline T sf_add_##S(T a, T b) { return (T)((U)a + (U)b); }        \
  static inline T sf_sub_##S(T a, T b) { return (T)((U)a - (U)b); }        \
  static inline T sf_mul_##S(T a, T b) { return (T)((U)a * (U)b); }        \
  static inline T sf_abs_##S(T a) { return a < 0 ? sf_sub_##S(0, a) : a; } \
  static inline T sf_min_##S(T a, T b) { return a < b ? a : b; }           \
  static inline T sf_max_##S(T a, T b) { return a > b ? a : b; }           \
  static inline T sf_shl_##S(T a, T b) { return (T)((U)a << b); }          \
  static inline T sf_shr_##S(T a, T b) { return (T)((U)a >> b); }
SF_INTEGER(int32_t, uint32_t, i32)
SF_INTEGER(int64_t, uint64_t, i64)

// minimum and maximum follow IEEE 754-2019: NaN propagates, -0 < +0. powi squares repeatedly.
#define SF_REAL(T, S)                                                        \
  static inline T sf_add_##S(T a, T b) { return a + b; }                     \
  static inline T sf_min_##S(T a, T b) {                                     \
    if (a != a || b != b) return NAN;                                        \
    return a < b || (a == b && signbit(a)) ? a : b;                          \
  }                                                                          \
  static inline T sf_max_##S(T a, T b) {                                     \
    if (a != a || b != b) return NAN;                                        \
    return a > b || (a == b && !signbit(a)) ? a : b;                         \
  }                                                                          \
  static inline T sf_powi_##S(T base, int64_t exponent) {                    \
    uint64_t n = exponent < 0 ? 0 - (uint64_t)exponent : (uint64_t)exponent; \
    T r = 1;                                                                 \
    for (; n != 0; n >>= 1, base = base * base) {                            \
      if (n & 1) r = r * base;                                               \
    }                                                                        \
    return exponent < 0 ? 1 / r : r;                                         \
  }
SF_REAL(float, f32)
SF_REAL(double, f64)

// Code tables: limits a code to 0 … last, clamps a value to bounds (NaN becomes the low one), and finds a
// code in a tree of bounds.
static inline int32_t sf_code(int32_t code, int32_t last) {
  return code < 0 ? 0 : code > last ? last : code;
}
static inline float sf_held(float x, float low, float high) {
  x = x > low ? x : low;
  return x < high ? x : high;
}
static inline int32_t sf_nearest(const float* tree, uint32_t nodes, float x) {
  uint32_t k = 1;
  while (k < nodes) k = 2 * k + (tree[k] <= x ? 1 : 0);
  return (int32_t)(k - nodes);
}

// Philox4x32-10: four elements share a block of its words.
static inline int32_t sf_random(int64_t seed, int64_t count, int32_t stream, uint32_t tensor,
                                uint64_t position) {
  const uint64_t block = position / 4;
  uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32) << 16 | ((uint32_t)stream & 0xffff),
                   tensor, (uint32_t)count};
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)((uint64_t)seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = 0xd2511f53ull * c[0], b = 0xcd9e8d57ull * c[2];
    c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k0;
    c[1] = (uint32_t)b;
    c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k1;
    c[3] = (uint32_t)a;
    k0 += 0x9e3779b9;
    k1 += 0xbb67ae85;
  }
  return (int32_t)c[position % 4];
}

// ---- the canonical fold: the lanes of a piece of SF_PIECE values, pieces folded again

#define SF_REDUCTION(NAME, T, IDENTITY, COMBINE)                                            \
  static void NAME##_clear(T* lanes) {                                                      \
    for (uint32_t l = 0; l < SF_LANES; ++l) lanes[l] = IDENTITY;                            \
  }                                                                                         \
  static T NAME##_lanes(T* lanes) {                                                         \
    for (uint32_t d = SF_LANES / 2; d > 0; d /= 2) {                                        \
      for (uint32_t l = 0; l < d; ++l) lanes[l] = COMBINE(lanes[l], lanes[l + d]);          \
    }                                                                                       \
    return lanes[0];                                                                        \
  }                                                                                         \
  /* In place: the result of piece p stands where value p stood. */                         \
  static T NAME##_list(T* values, const uint32_t* index, uint64_t step, uint32_t count) {   \
    T lanes[SF_LANES];                                                                      \
    for (;;) {                                                                              \
      uint32_t pieces = 0;                                                                  \
      for (uint32_t begin = 0; begin < count || pieces == 0; begin += SF_PIECE) {           \
        const uint32_t end = count - begin < SF_PIECE ? count : begin + SF_PIECE;           \
        NAME##_clear(lanes);                                                                \
        for (uint32_t i = begin; i < end; ++i) {                                            \
          T* lane = lanes + i % SF_LANES;                                                   \
          *lane = COMBINE(*lane, values[step * (index ? index[i] : i)]);                    \
        }                                                                                   \
        if (count <= SF_PIECE) return NAME##_lanes(lanes);                                  \
        values[step * (index ? index[pieces] : pieces)] = NAME##_lanes(lanes);              \
        ++pieces;                                                                           \
      }                                                                                     \
      count = pieces;                                                                       \
    }                                                                                       \
  }                                                                                         \
  static void NAME(const sf_partition* parts, T* values, T* results) {                      \
    for (uint32_t m = 0; m < parts->count; ++m) {                                           \
      const uint32_t begin = parts->begin[m], count = parts->begin[m + 1] - begin;          \
      const uint32_t* index = parts->members ? parts->members + begin : 0;                  \
      results[m] = NAME##_list(index ? values : values + begin, index, 1, count);           \
    }                                                                                       \
  }                                                                                         \
  /* Folds the strips of each column. */                                                    \
  static void NAME##_strips(const sf_context* ctx, uint32_t place, T* values, T* results) { \
    const uint64_t* bases = ctx->bases + (uint64_t)ctx->tensor_count * place;               \
    for (uint32_t t = 0; t < ctx->tensor_count; ++t) {                                      \
      const sf_tensor* own = ctx->tensors + t;                                              \
      const uint32_t* begin = ctx->parts[SF_COLUMNS].begin + t;                             \
      if (begin[0] == begin[1]) continue; /* It has no elements, and so no columns. */      \
      const uint64_t rows = (own->flags & SF_PRESENT) ? own->size / own->columns : 0;       \
      for (uint32_t c = begin[0]; c < begin[1]; ++c) {                                      \
        results[c] = NAME##_list(values + bases[t] + (c - begin[0]), 0, own->columns,       \
                                 (uint32_t)((rows + SF_STRIP - 1) / SF_STRIP));             \
      }                                                                                     \
    }                                                                                       \
  }
static inline uint8_t sf_or(uint8_t a, uint8_t b) { return a | b; }
