// step @adamw, form fused: generated, self-contained C11.
// Call it with rounding to nearest and subnormals kept (fesetenv(FE_DFL_ENV)): it leaves the mode as it is.
enum { SF_LANES = 2048, SF_PIECE = 16384 };
// What every generated C kernel begins with: the tables it works on, the ops that C defines
// otherwise, and the canonical fold. Knows nothing.

// Compile with -ffp-contract=off: a product and a sum are never fused unless the step says so.
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

// Not every step uses everything, and some compare a value with itself.
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
  uint64_t size, offset, scratch_base;
} sf_tensor;

// Part m has members [begin[m], begin[m + 1]) of the list `members`; null: of 0, 1, 2, …
typedef struct {
  const uint32_t *members, *begin;
  uint32_t count, reserved;
} sf_partition;

typedef struct {
  const sf_chunk* chunks;
  const sf_tensor* tensors;
  void* const* pointers;  // [tensor * buffer count + buffer]
  const uint64_t *step_args, *group_args;
  void *const *states, *const *slots, *const *results;
  uint64_t* scalars;
  void* const* scratch;
  uint32_t chunk_count, tensor_count, group_count, reserved;
  sf_partition parts[6];
} sf_context;

// ---- ops

#define SF_BITS(TO, FROM, NAME)      \
  static inline TO NAME(FROM from) { \
    TO to;                           \
    memcpy(&to, &from, sizeof to);   \
    return to;                       \
  }
SF_BITS(uint32_t, float, sf_bits)
SF_BITS(float, uint32_t, sf_float)
SF_BITS(double, uint64_t, sf_double)

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
SF_ARGUMENT(uint16_t, sf_arg_f16)
SF_ARGUMENT(uint16_t, sf_arg_bf16)
static inline bool sf_arg_bool(const uint64_t* word) { return (*word & 0xff) != 0; }

// Integers wrap; x/0 = 0, MIN/-1 = MIN.
#define SF_INTEGER(T, U, S)                                                                        \
  static inline T sf_add_##S(T a, T b) { return (T)((U)a + (U)b); }                                \
  static inline T sf_sub_##S(T a, T b) { return (T)((U)a - (U)b); }                                \
  static inline T sf_mul_##S(T a, T b) { return (T)((U)a * (U)b); }                                \
  static inline T sf_abs_##S(T a) { return a < 0 ? sf_sub_##S(0, a) : a; }                         \
  static inline T sf_div_##S(T a, T b) { return b == 0 ? 0 : b == -1 ? sf_sub_##S(0, a) : a / b; } \
  static inline T sf_min_##S(T a, T b) { return a < b ? a : b; }                                   \
  static inline T sf_max_##S(T a, T b) { return a > b ? a : b; }
SF_INTEGER(int32_t, uint32_t, i32)
SF_INTEGER(int64_t, uint64_t, i64)

// minimum and maximum of IEEE 754-2019: NaN propagates, -0 < +0. powi by repeated squaring.
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

// Truncates, saturates, NaN -> 0.
#define SF_TRUNCATE(I, NAME, F, LIMIT, MIN, MAX) \
  static inline I NAME(F v) {                    \
    if (v != v) return 0;                        \
    if (v >= LIMIT) return MAX;                  \
    return v <= -LIMIT ? MIN : (I)v;             \
  }
SF_TRUNCATE(int32_t, sf_i32_from_f32, float, 0x1p31f, INT32_MIN, INT32_MAX)
SF_TRUNCATE(int32_t, sf_i32_from_f64, double, 0x1p31, INT32_MIN, INT32_MAX)
SF_TRUNCATE(int64_t, sf_i64_from_f32, float, 0x1p63f, INT64_MIN, INT64_MAX)
SF_TRUNCATE(int64_t, sf_i64_from_f64, double, 0x1p63, INT64_MIN, INT64_MAX)

// 16-bit floats are held as their bits. To nearest, ties to even; every NaN becomes 0x7fff.
static inline float sf_f32_from_bf16(uint16_t h) { return sf_float((uint32_t)h << 16); }
static inline uint16_t sf_bf16_from_f32(float v) {
  const uint32_t u = sf_bits(v);
  return v != v ? 0x7fff : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
static inline float sf_f32_from_f16(uint16_t h) {
  const uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
  uint32_t bits = (magnitude << 13) + (112u << 23);
  if (magnitude < 0x400) bits = sf_bits((float)magnitude * 0x1p-24f);
  if (magnitude >= 0x7c00) bits = magnitude << 13 | 0x7f800000;
  return sf_float(bits | sign);
}
static inline uint16_t sf_f16_from_f32(float v) {
  if (v != v) return 0x7fff;
  const uint32_t u = sf_bits(v), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
  uint32_t bits = (magnitude + 0xfff + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
  /* Adding 0.5, whose last place is 2^-24, rounds a subnormal. */
  if (magnitude < 0x38800000) bits = sf_bits(sf_float(magnitude) + 0.5f) - 0x3f000000;
  if (magnitude >= 0x477ff000) bits = 0x7c00;
  return (uint16_t)(bits | sign);
}

// ---- the canonical fold: the lanes of a piece of SF_PIECE values, pieces folded again

#define SF_REDUCTION(NAME, T, IDENTITY, COMBINE)                                   \
  static void NAME##_clear(T* lanes) {                                             \
    for (uint32_t l = 0; l < SF_LANES; ++l) lanes[l] = IDENTITY;                   \
  }                                                                                \
  static T NAME##_lanes(T* lanes) {                                                \
    for (uint32_t d = SF_LANES / 2; d > 0; d /= 2) {                               \
      for (uint32_t l = 0; l < d; ++l) lanes[l] = COMBINE(lanes[l], lanes[l + d]); \
    }                                                                              \
    return lanes[0];                                                               \
  }                                                                                \
  /* In place: the result of piece p stands where value p stood. */                \
  static T NAME##_list(T* values, const uint32_t* index, uint32_t count) {         \
    T lanes[SF_LANES];                                                             \
    for (;;) {                                                                     \
      uint32_t pieces = 0;                                                         \
      for (uint32_t begin = 0; begin < count || pieces == 0; begin += SF_PIECE) {  \
        const uint32_t end = count - begin < SF_PIECE ? count : begin + SF_PIECE;  \
        NAME##_clear(lanes);                                                       \
        for (uint32_t i = begin; i < end; ++i) {                                   \
          T* lane = lanes + i % SF_LANES;                                          \
          *lane = COMBINE(*lane, values[index ? index[i] : i]);                    \
        }                                                                          \
        if (count <= SF_PIECE) return NAME##_lanes(lanes);                         \
        values[index ? index[pieces] : pieces] = NAME##_lanes(lanes);              \
        ++pieces;                                                                  \
      }                                                                            \
      count = pieces;                                                              \
    }                                                                              \
  }                                                                                \
  static void NAME(const sf_partition* parts, T* values, T* results) {             \
    for (uint32_t m = 0; m < parts->count; ++m) {                                  \
      const uint32_t begin = parts->begin[m], count = parts->begin[m + 1] - begin; \
      const uint32_t* index = parts->members ? parts->members + begin : 0;         \
      results[m] = NAME##_list(index ? values : values + begin, index, count);     \
    }                                                                              \
  }
static inline uint8_t sf_or(uint8_t a, uint8_t b) { return a | b; }

SF_REDUCTION(sf_fold_add_f32, float, 0.0f, sf_add_f32)
SF_REDUCTION(sf_fold_any, uint8_t, false, sf_or)

void sf_phase_0(const sf_context* ctx, uint32_t begin, uint32_t end) {
  for (uint32_t c = begin; c < end; ++c) {
    const sf_chunk* const chunk = ctx->chunks + c;
    const uint32_t tensor_index = chunk->tensor;
    const sf_tensor* const tensor = ctx->tensors + tensor_index;
    if ((tensor->flags & SF_PRESENT) == 0) {
      ((uint8_t*)ctx->slots[0])[c] = false;
      ((float*)ctx->slots[1])[c] = 0.0f;
      continue;
    }
    float* const b_grad = (float*)ctx->pointers[(uint64_t)tensor_index * 4 + 0] + chunk->begin;  // @grad, f32
    uint8_t lanes_s_found_inf[SF_LANES];
    sf_fold_any_clear(lanes_s_found_inf);
    float lanes_s_sum[SF_LANES];
    sf_fold_add_f32_clear(lanes_s_sum);
    for (uint32_t i = 0; i < chunk->length; ++i) {
      const float e_grad = b_grad[i];  // %grad = load @grad : [f32]
      const bool e_finite = isfinite(e_grad) != 0;  // %finite = isfinite %grad : [bool]
      const bool e_nonfinite = !e_finite;  // %nonfinite = not %finite : [bool]
      const float e_g_square = e_grad * e_grad;  // %g_square = mul %grad, %grad : [f32]
      const uint64_t lane = (tensor->offset + chunk->begin + i) % SF_LANES;
      lanes_s_found_inf[lane] = sf_or(lanes_s_found_inf[lane], e_nonfinite);  // %found_inf = reduce_any %nonfinite : bool
      lanes_s_sum[lane] = sf_add_f32(lanes_s_sum[lane], e_g_square);  // %sum = reduce_add %g_square : f32
    }
    ((uint8_t*)ctx->slots[0])[c] = sf_fold_any_lanes(lanes_s_found_inf);
    ((float*)ctx->slots[1])[c] = sf_fold_add_f32_lanes(lanes_s_sum);
  }
}

void sf_phase_1(const sf_context* ctx, uint32_t begin, uint32_t end) {
  const double s_max_norm = sf_arg_f64(ctx->step_args + 0);  // arg %max_norm : f64 = 1
  const bool s_found_inf = ((uint8_t*)ctx->results[0])[0];  // %found_inf = reduce_any %nonfinite : bool
  const float s_sum = ((float*)ctx->results[1])[0];  // %sum = reduce_add %g_square : f32
  const float s_norm = sqrtf(s_sum);  // %norm = sqrt %sum : f32
  const bool s_norm_finite = isfinite(s_norm) != 0;  // %norm_finite = isfinite %norm : bool
  const bool s_norm_nonfinite = !s_norm_finite;  // %norm_nonfinite = not %norm_finite : bool
  const bool s_all_finite = !s_found_inf;  // %all_finite = not %found_inf : bool
  const bool s_norm_overflow = s_norm_nonfinite && s_all_finite;  // %norm_overflow = and %norm_nonfinite, %all_finite : bool
  const float s_norm_plus = s_norm + 1e-06f;  // %norm_plus = add %norm, %c_1e_06_f32 : f32
  const float s_inv_norm = 1 / s_norm_plus;  // %inv_norm = rcp %norm_plus : f32
  const float s_max_norm_f32 = (float)s_max_norm;  // %max_norm_f32 = cast %max_norm : f32
  const float s_clip_ratio = s_inv_norm * s_max_norm_f32;  // %clip_ratio = mul %inv_norm, %max_norm_f32 : f32
  const float s_clip_coef = sf_min_f32(s_clip_ratio, 1.0f);  // %clip_coef = min %clip_ratio, %c_1_f32 : f32
  const bool s_bad = s_found_inf || s_norm_overflow;  // %bad = or %found_inf, %norm_overflow : bool
  const bool s_good = !s_bad;  // %good = not %bad : bool
  if (!s_good) return;
  for (uint32_t c = begin; c < end; ++c) {
    const sf_chunk* const chunk = ctx->chunks + c;
    const uint32_t tensor_index = chunk->tensor;
    const sf_tensor* const tensor = ctx->tensors + tensor_index;
    if ((tensor->flags & SF_PRESENT) == 0) {
      continue;
    }
    const uint32_t group = tensor->group;
    const double g_lr = sf_arg_f64(ctx->group_args + (uint64_t)group * 5 + 0);  // arg %lr : {f64} = 0.001
    const double g_beta1 = sf_arg_f64(ctx->group_args + (uint64_t)group * 5 + 1);  // arg %beta1 : {f64} = 0.9
    const double g_beta2 = sf_arg_f64(ctx->group_args + (uint64_t)group * 5 + 2);  // arg %beta2 : {f64} = 0.999
    const double g_eps = sf_arg_f64(ctx->group_args + (uint64_t)group * 5 + 3);  // arg %eps : {f64} = 1e-08
    const double g_weight_decay = sf_arg_f64(ctx->group_args + (uint64_t)group * 5 + 4);  // arg %weight_decay : {f64} = 0.01
    const double g_decay_rate = g_lr * g_weight_decay;  // %decay_rate = mul %lr, %weight_decay : {f64}
    const double g_decay_f64 = 1.0 - g_decay_rate;  // %decay_f64 = sub %c_1_f64, %decay_rate : {f64}
    const float g_decay = (float)g_decay_f64;  // %decay = cast %decay_f64 : {f32}
    const double g_rest1 = 1.0 - g_beta1;  // %rest1 = sub %c_1_f64, %beta1 : {f64}
    const float g_pull = (float)g_rest1;  // %pull = cast %rest1 : {f32}
    const float g_pull_size = fabsf(g_pull);  // %pull_size = abs %pull : {f32}
    const bool g_from_a = g_pull_size < 0.5f;  // %from_a = lt %pull_size, %c_0_5_f32 : {bool}
    const float g_push = g_pull - 1.0f;  // %push = sub %pull, %c_1_f32 : {f32}
    const float g_lerp_coef = g_from_a ? g_pull : g_push;  // %lerp_coef = select %from_a, %pull, %push : {f32}
    const double g_rest_f64 = 1.0 - g_beta2;  // %rest_f64 = sub %c_1_f64, %beta2 : {f64}
    const float g_rest = (float)g_rest_f64;  // %rest = cast %rest_f64 : {f32}
    const float g_keep = (float)g_beta2;  // %keep = cast %beta2 : {f32}
    const float g_eps_f32 = (float)g_eps;  // %eps_f32 = cast %eps : {f32}
    const int64_t t_t0 = ((int64_t*)ctx->states[0])[tensor_index];  // %t0 = read @step : <i64>
    const int64_t t_t = sf_add_i64(t_t0, INT64_C(1));  // %t = add %t0, %c_1_i64 : <i64>
    const double t_beta_t = sf_powi_f64(g_beta1, t_t);  // %beta_t = powi %beta1, %t : <f64>
    const double t_correction = 1.0 - t_beta_t;  // %correction = sub %c_1_f64, %beta_t : <f64>
    const double t_rate = g_lr / t_correction;  // %rate = div %lr, %correction : <f64>
    const double t_step_size_f64 = -t_rate;  // %step_size_f64 = neg %rate : <f64>
    const float t_step_size = (float)t_step_size_f64;  // %step_size = cast %step_size_f64 : <f32>
    const double t_beta_t_1 = sf_powi_f64(g_beta2, t_t);  // %beta_t.1 = powi %beta2, %t : <f64>
    const double t_correction_1 = 1.0 - t_beta_t_1;  // %correction.1 = sub %c_1_f64, %beta_t.1 : <f64>
    const double t_correction_root_f64 = sqrt(t_correction_1);  // %correction_root_f64 = sqrt %correction.1 : <f64>
    const float t_correction_root = (float)t_correction_root_f64;  // %correction_root = cast %correction_root_f64 : <f32>
    float* const b_grad = (float*)ctx->pointers[(uint64_t)tensor_index * 4 + 0] + chunk->begin;  // @grad, f32
    float* const b_weight = (float*)ctx->pointers[(uint64_t)tensor_index * 4 + 1] + chunk->begin;  // @weight, f32
    float* const b_exp_avg = (float*)ctx->pointers[(uint64_t)tensor_index * 4 + 2] + chunk->begin;  // @exp_avg, f32
    float* const b_exp_avg_sq = (float*)ctx->pointers[(uint64_t)tensor_index * 4 + 3] + chunk->begin;  // @exp_avg_sq, f32
    for (uint32_t i = 0; i < chunk->length; ++i) {
      const float e_grad = b_grad[i];  // %grad = load @grad : [f32]
      const float e_g_clipped = e_grad * s_clip_coef;  // %g_clipped = mul %grad, %clip_coef : [f32]
      const float e_w = b_weight[i];  // %w = load @weight : [f32]
      const float e_w_decayed = e_w * g_decay;  // %w_decayed = mul %w, %decay : [f32]
      const float e_exp_avg_in = b_exp_avg[i];  // %exp_avg_in = load @exp_avg : [f32]
      const float e_exp_avg_sq_in = b_exp_avg_sq[i];  // %exp_avg_sq_in = load @exp_avg_sq : [f32]
      const float e_lerp_base = g_from_a ? e_exp_avg_in : e_g_clipped;  // %lerp_base = select %from_a, %exp_avg_in, %g_clipped : [f32]
      const float e_distance = e_g_clipped - e_exp_avg_in;  // %distance = sub %g_clipped, %exp_avg_in : [f32]
      const float e_m = fmaf(g_lerp_coef, e_distance, e_lerp_base);  // %m = fma %lerp_coef, %distance, %lerp_base : [f32]
      const float e_kept = e_exp_avg_sq_in * g_keep;  // %kept = mul %exp_avg_sq_in, %keep : [f32]
      const float e_g_share = g_rest * e_g_clipped;  // %g_share = mul %rest, %g_clipped : [f32]
      const float e_v = fmaf(e_g_share, e_g_clipped, e_kept);  // %v = fma %g_share, %g_clipped, %kept : [f32]
      const float e_v_root = sqrtf(e_v);  // %v_root = sqrt %v : [f32]
      const float e_v_corrected = e_v_root / t_correction_root;  // %v_corrected = div %v_root, %correction_root : [f32]
      const float e_denominator = e_v_corrected + g_eps_f32;  // %denominator = add %v_corrected, %eps_f32 : [f32]
      const float e_numerator = t_step_size * e_m;  // %numerator = mul %step_size, %m : [f32]
      const float e_update = e_numerator / e_denominator;  // %update = div %numerator, %denominator : [f32]
      const float e_w_new = e_w_decayed + e_update;  // %w_new = add %w_decayed, %update : [f32]
      b_exp_avg[i] = e_m;  // store @exp_avg, %m if %good
      b_exp_avg_sq[i] = e_v;  // store @exp_avg_sq, %v if %good
      b_weight[i] = e_w_new;  // store @weight, %w_new if %good
    }
  }
}

void sf_finish(const sf_context* ctx) {
  const double s_max_norm = sf_arg_f64(ctx->step_args + 0);  // arg %max_norm : f64 = 1
  const bool s_found_inf = ((uint8_t*)ctx->results[0])[0];  // %found_inf = reduce_any %nonfinite : bool
  const float s_sum = ((float*)ctx->results[1])[0];  // %sum = reduce_add %g_square : f32
  const float s_norm = sqrtf(s_sum);  // %norm = sqrt %sum : f32
  const bool s_norm_finite = isfinite(s_norm) != 0;  // %norm_finite = isfinite %norm : bool
  const bool s_norm_nonfinite = !s_norm_finite;  // %norm_nonfinite = not %norm_finite : bool
  const bool s_all_finite = !s_found_inf;  // %all_finite = not %found_inf : bool
  const bool s_norm_overflow = s_norm_nonfinite && s_all_finite;  // %norm_overflow = and %norm_nonfinite, %all_finite : bool
  const float s_norm_plus = s_norm + 1e-06f;  // %norm_plus = add %norm, %c_1e_06_f32 : f32
  const float s_inv_norm = 1 / s_norm_plus;  // %inv_norm = rcp %norm_plus : f32
  const float s_max_norm_f32 = (float)s_max_norm;  // %max_norm_f32 = cast %max_norm : f32
  const float s_clip_ratio = s_inv_norm * s_max_norm_f32;  // %clip_ratio = mul %inv_norm, %max_norm_f32 : f32
  const float s_clip_coef = sf_min_f32(s_clip_ratio, 1.0f);  // %clip_coef = min %clip_ratio, %c_1_f32 : f32
  const bool s_bad = s_found_inf || s_norm_overflow;  // %bad = or %found_inf, %norm_overflow : bool
  const bool s_good = !s_bad;  // %good = not %bad : bool
  const float s_coef_used = s_bad ? 0.0f : s_clip_coef;  // %coef_used = select %bad, %c_0_f32, %clip_coef : f32
  for (uint32_t tensor_index = 0; tensor_index < ctx->tensor_count; ++tensor_index) {
    const sf_tensor* const tensor = ctx->tensors + tensor_index;
    if ((tensor->flags & SF_PRESENT) == 0) continue;
    const int64_t t_t0 = ((int64_t*)ctx->states[0])[tensor_index];  // %t0 = read @step : <i64>
    const int64_t t_t = sf_add_i64(t_t0, INT64_C(1));  // %t = add %t0, %c_1_i64 : <i64>
    if (s_good) ((int64_t*)ctx->states[0])[tensor_index] = t_t;  // write @step, %t if %good
  }
  ((uint8_t*)ctx->states[1])[0] = s_found_inf;  // write @found_inf, %found_inf
  ((float*)ctx->states[2])[0] = s_norm;  // write @grad_norm, %norm
  ((float*)ctx->states[3])[0] = s_coef_used;  // write @clip_coef, %coef_used
  ((uint8_t*)ctx->states[4])[0] = s_norm_overflow;  // write @norm_overflow, %norm_overflow
  ((uint8_t*)ctx->states[5])[0] = s_bad;  // write @skipped, %bad
}

void sf_run(const sf_context* ctx) {
  sf_phase_0(ctx, 0, ctx->chunk_count);  // reduce
  sf_fold_any(ctx->parts + 3, ctx->slots[0], ctx->results[0]);  // %found_inf = reduce_any %nonfinite : bool
  sf_fold_add_f32(ctx->parts + 3, ctx->slots[1], ctx->results[1]);  // %sum = reduce_add %g_square : f32
  sf_phase_1(ctx, 0, ctx->chunk_count);  // update
  sf_finish(ctx);
}
