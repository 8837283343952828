// step @adamw, form unfused: generated, self-contained CUDA C++.
namespace stepfuse {
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
}
// … abi.hpp …
namespace stepfuse {
// … prelude.cuh …

struct Step0 {
  float s_inv_scale;
};

extern "C" __global__ void __launch_bounds__(kThreads, 3)
sf_adamw_unscale(const __grid_constant__ abi::DeviceContext ctx) {
  __shared__ Step0 step_0;
  {  // phase unscale
    if (threadIdx.x == 0) {
      const float s_scale = global<float>(ctx.step.states, 0)[0];  // %scale = read @scale : f32
      const double s_scale_f64 = double(s_scale);  // %scale_f64 = cast %scale : f64
      const double s_inv_scale_f64 = 1.0 / s_scale_f64;  // %inv_scale_f64 = rcp %scale_f64 : f64
      const float s_inv_scale = float(s_inv_scale_f64);  // %inv_scale = cast %inv_scale_f64 : f32
      step_0.s_inv_scale = s_inv_scale;
    }
    __syncthreads();
    const float s_inv_scale = step_0.s_inv_scale;
    const u32 units = unit_count(ctx);
#pragma unroll 1
    for (u32 turn = blockIdx.x; turn < units; turn += gridDim.x) {
      const u32 unit = turn;
      const Work work = work_of(ctx, unit);
      const abi::Chunk* const entry = chunk_of(ctx, unit);
      if (entry == nullptr) continue;
      const abi::Chunk chunk = *entry;
      const u32 tensor_index = chunk.tensor;
      const abi::Tensor& tensor = ctx.step.tensors[tensor_index];
      if ((tensor.flags & abi::kPresent) == 0) {  // neither loaded nor stored
        if (work.worker == 0) {
          global<bool>(ctx.step.slots, 0)[chunk.slot] = false;
        }
        continue;
      }
      const i32 length = i32(chunk.length);
      bool acc_s_found_inf = false;
      const u64 p_b_grad = address_of(global<f16>(ctx.step.pointers, u64(tensor_index) * 5 + 0) + chunk.begin);
      const u64 p_scratch0 = address_of(global<float>(ctx.step.scratch, 0) + tensor.scratch_base + chunk.begin);
      const i32 skew = skew_of<float, 4>(p_scratch0);
      const u32 room_b_grad = room_of<f16, 4>(p_b_grad, skew, length);
      const u32 room_scratch0 = room_of<float, 4>(p_scratch0, skew, length);
      const i32 stride = i32(work.workers) * 4;
#pragma unroll 1
      for (i32 first = i32(work.worker) * 4 - skew; first < length; first += 4 * stride) {
        u32 in_b_grad[8];
        load<Plain, f16, 4, 4>(in_b_grad, p_b_grad, room_b_grad, first, stride, length);
        u32 out_scratch0[16];
#pragma unroll
        for (i32 e = 0; e < 16; ++e) {
          const i32 at = first + e / 4 * stride + e % 4;
          const f16 e_grad = get<f16>(in_b_grad, e);  // %grad = load @grad : [f16]
          const float e_grad_f32 = f32_from(e_grad);  // %grad_f32 = cast %grad : [f32]
          const float e_g = e_grad_f32 * s_inv_scale;  // %g = mul %grad_f32, %inv_scale : [f32]
          const bool e_finite = is_finite(e_grad_f32);  // %finite = isfinite %grad_f32 : [bool]
          const bool e_nonfinite = !e_finite;  // %nonfinite = not %finite : [bool]
          acc_s_found_inf |= e_nonfinite & (u32(at) < u32(length));  // %found_inf = reduce_any %nonfinite : bool
          put<float>(out_scratch0, e, bits_of(e_g));  // %g is kept
        }
        store<Plain, float, 4, 4>(out_scratch0, p_scratch0, room_scratch0, first, stride, length);
      }
      any_chunk(acc_s_found_inf, work.packed, &global<bool>(ctx.step.slots, 0)[chunk.slot]);  // %found_inf = reduce_any %nonfinite : bool
    }
  }
  if ((ctx.flags & abi::kKeepSlots) == 0 && last_to_arrive(ctx.sync->finished)) {
    any_list(global<bool>(ctx.step.slots, 0), nullptr, ctx.step.chunk_count, global<bool>(ctx.step.results, 0));  // %found_inf = reduce_any %nonfinite : bool
  }
}


extern "C" __global__ void __launch_bounds__(kThreads, 3)
sf_adamw_norm(const __grid_constant__ abi::DeviceContext ctx) {
  __shared__ Lanes lanes;
  {  // phase norm
    const u32 units = unit_count(ctx);
#pragma unroll 1
    for (u32 turn = blockIdx.x; turn < units; turn += gridDim.x) {
      const u32 unit = turn;
      const Work work = work_of(ctx, unit);
      const abi::Chunk* const entry = chunk_of(ctx, unit);
      if (entry == nullptr) continue;
      const abi::Chunk chunk = *entry;
      const u32 tensor_index = chunk.tensor;
      const abi::Tensor& tensor = ctx.step.tensors[tensor_index];
      if ((tensor.flags & abi::kPresent) == 0) {  // neither loaded nor stored
        if (work.worker == 0) {
          global<float>(ctx.step.slots, 1)[chunk.slot] = Add::identity<float>();
        }
        continue;
      }
      const i32 length = i32(chunk.length);
      const u32 first_lane = work.packed ? 0 : u32(tensor.offset + chunk.begin) % 2048;
      LanePlace place = {0, work.workers * 4};
      float acc_s_sum[8];
#pragma unroll
      for (i32 e = 0; e < 8; ++e) acc_s_sum[e] = Add::identity<float>();
      const u64 p_scratch0 = address_of(global<float>(ctx.step.scratch, 0) + tensor.scratch_base + chunk.begin);
      const i32 skew = skew_of<float, 4>(p_scratch0);
      const u32 room_scratch0 = room_of<float, 4>(p_scratch0, skew, length);
      const i32 stride = i32(work.workers) * 4;
      place = lane_place<4>(skew, work.worker, work.workers, first_lane);
#pragma unroll 1
      for (i32 first = i32(work.worker) * 4 - skew; first < length; first += 4 * stride) {
        u32 in_scratch0[16];
        load<Plain, float, 4, 4>(in_scratch0, p_scratch0, room_scratch0, first, stride, length);
#pragma unroll
        for (i32 e = 0; e < 16; ++e) {
          const i32 at = first + e / 4 * stride + e % 4;
          const float e_g = get<float>(in_scratch0, e);  // %g = mul %grad_f32, %inv_scale : [f32]
          const float e_g_square = e_g * e_g;  // %g_square = mul %g, %g : [f32]
          acc_s_sum[e % 8] = u32(at) < u32(length) ? Add::combine(acc_s_sum[e % 8], e_g_square) : acc_s_sum[e % 8];  // %sum = reduce_add %g_square : f32
        }
      }
      fold_chunk<Add>(acc_s_sum, place, work.packed, lanes, &global<float>(ctx.step.slots, 1)[chunk.slot]);  // %sum = reduce_add %g_square : f32
    }
  }
  if ((ctx.flags & abi::kKeepSlots) == 0 && last_to_arrive(ctx.sync->finished)) {
    fold_list<Add>(global<float>(ctx.step.slots, 1), nullptr, ctx.step.chunk_count, global<float>(ctx.step.results, 1), lanes);  // %sum = reduce_add %g_square : f32
  }
}

struct Step2 {
  float s_clip_coef;
};

extern "C" __global__ void __launch_bounds__(kThreads, 3)
sf_adamw_clip(const __grid_constant__ abi::DeviceContext ctx) {
  const float s_c_1e_06_f32 = 0x1.0c6f7ap-20f;  // %c_1e_06_f32 = const 1e-06 : f32
  const float s_c_1_f32 = 0x1p+0f;  // %c_1_f32 = const 1 : f32
  __shared__ Step2 step_2;
  {  // phase clip
    if (threadIdx.x == 0) {
      const u64* const step_args = step_args_of(ctx);
      const double s_max_norm = arg<double>(step_args[0]);  // arg %max_norm : f64 = 1
      const float s_sum = global<float>(ctx.step.results, 1)[0];  // %sum = reduce_add %g_square : f32
      const float s_norm = __fsqrt_rn(s_sum);  // %norm = sqrt %sum : f32
      const float s_norm_plus = s_norm + s_c_1e_06_f32;  // %norm_plus = add %norm, %c_1e_06_f32 : f32
      const float s_inv_norm = 1.0f / s_norm_plus;  // %inv_norm = rcp %norm_plus : f32
      const float s_max_norm_f32 = float(s_max_norm);  // %max_norm_f32 = cast %max_norm : f32
      const float s_clip_ratio = s_inv_norm * s_max_norm_f32;  // %clip_ratio = mul %inv_norm, %max_norm_f32 : f32
      const float s_clip_coef = minimum(s_clip_ratio, s_c_1_f32);  // %clip_coef = min %clip_ratio, %c_1_f32 : f32
      step_2.s_clip_coef = s_clip_coef;
    }
    __syncthreads();
    const float s_clip_coef = step_2.s_clip_coef;
    const u32 units = unit_count(ctx);
#pragma unroll 1
    for (u32 turn = blockIdx.x; turn < units; turn += gridDim.x) {
      const u32 unit = units - 1 - turn;
      const Work work = work_of(ctx, unit);
      const abi::Chunk* const entry = chunk_of(ctx, unit);
      if (entry == nullptr) continue;
      const abi::Chunk chunk = *entry;
      const u32 tensor_index = chunk.tensor;
      const abi::Tensor& tensor = ctx.step.tensors[tensor_index];
      if ((tensor.flags & abi::kPresent) == 0) {  // neither loaded nor stored
        continue;
      }
      const i32 length = i32(chunk.length);
      const u64 p_scratch0 = address_of(global<float>(ctx.step.scratch, 0) + tensor.scratch_base + chunk.begin);
      const i32 skew = skew_of<float, 4>(p_scratch0);
      const u32 room_scratch0 = room_of<float, 4>(p_scratch0, skew, length);
      const i32 stride = i32(work.workers) * 4;
#pragma unroll 1
      for (i32 first = i32(work.worker) * 4 - skew; first < length; first += 4 * stride) {
        u32 in_scratch0[16];
        load<Plain, float, 4, 4>(in_scratch0, p_scratch0, room_scratch0, first, stride, length);
        u32 out_scratch0[16];
#pragma unroll
        for (i32 e = 0; e < 16; ++e) {
          const float e_g = get<float>(in_scratch0, e);  // %g = mul %grad_f32, %inv_scale : [f32]
          const float e_g_clipped = e_g * s_clip_coef;  // %g_clipped = mul %g, %clip_coef : [f32]
          put<float>(out_scratch0, e, bits_of(e_g_clipped));  // %g_clipped is kept
        }
        store<Plain, float, 4, 4>(out_scratch0, p_scratch0, room_scratch0, first, stride, length);
      }
    }
  }
}

struct Step3 {
  u32 s_good;
};
struct Chunk3 {
  float g_decay;
  u32 g_from_a;
  float g_lerp_coef;
  float g_rest;
  float g_keep;
  float t_step_size;
  float t_correction_root;
  float g_eps_f32;
};

extern "C" __global__ void __launch_bounds__(kThreads, 3)
sf_adamw_optimizer(const __grid_constant__ abi::DeviceContext ctx) {
  const float s_c_1_f32 = 0x1p+0f;  // %c_1_f32 = const 1 : f32
  const double s_c_1_f64 = 0x1p+0;  // %c_1_f64 = const 1 : f64
  const float s_c_0_5_f32 = 0x1p-1f;  // %c_0_5_f32 = const 0.5 : f32
  const i64 s_c_1_i64 = 1ll;  // %c_1_i64 = const 1 : i64
  __shared__ Step3 step_3;
  {  // phase optimizer
    if (threadIdx.x == 0) {
      const bool s_found_inf = global<bool>(ctx.step.results, 0)[0];  // %found_inf = reduce_any %nonfinite : bool
      const float s_sum = global<float>(ctx.step.results, 1)[0];  // %sum = reduce_add %g_square : f32
      const float s_norm = __fsqrt_rn(s_sum);  // %norm = sqrt %sum : f32
      const bool s_norm_finite = is_finite(s_norm);  // %norm_finite = isfinite %norm : bool
      const bool s_norm_nonfinite = !s_norm_finite;  // %norm_nonfinite = not %norm_finite : bool
      const bool s_all_finite = !s_found_inf;  // %all_finite = not %found_inf : bool
      const bool s_norm_overflow = s_norm_nonfinite & s_all_finite;  // %norm_overflow = and %norm_nonfinite, %all_finite : bool
      const bool s_bad = s_found_inf | s_norm_overflow;  // %bad = or %found_inf, %norm_overflow : bool
      const bool s_good = !s_bad;  // %good = not %bad : bool
      step_3.s_good = s_good;
    }
    __syncthreads();
    const bool s_good = step_3.s_good != 0;
    const u32 units = s_good ? unit_count(ctx) : 0;
    __shared__ Chunk3 sections[1 + kWarps];
    u32 seen = kNone;  // the tensor whose values stand in section 0
#pragma unroll 1
    for (u32 turn = blockIdx.x; turn < units; turn += gridDim.x) {
      const u32 unit = units - 1 - turn;
      const Work work = work_of(ctx, unit);
      const abi::Chunk* const entry = chunk_of(ctx, unit);
      if (entry == nullptr) continue;
      const abi::Chunk chunk = *entry;
      const u32 tensor_index = chunk.tensor;
      const abi::Tensor& tensor = ctx.step.tensors[tensor_index];
      if ((tensor.flags & abi::kPresent) == 0) {  // neither loaded nor stored
        continue;
      }
      if (work.packed || tensor_index != seen) {
        synchronize(work.packed);  // nobody reads the last tensor's values any more
        if (work.worker == 0) {
          const u32 group = tensor.group;
          const u64* const group_args = group_args_of(ctx, 4, group * 5);
          const double g_lr = arg<double>(group_args[0]);  // arg %lr : {f64} = 0.001
          const double g_beta1 = arg<double>(group_args[1]);  // arg %beta1 : {f64} = 0.9
          const double g_beta2 = arg<double>(group_args[2]);  // arg %beta2 : {f64} = 0.999
          const double g_eps = arg<double>(group_args[3]);  // arg %eps : {f64} = 1e-08
          const double g_weight_decay = arg<double>(group_args[4]);  // arg %weight_decay : {f64} = 0.01
          const double g_decay_rate = g_lr * g_weight_decay;  // %decay_rate = mul %lr, %weight_decay : {f64}
          const double g_decay_f64 = s_c_1_f64 - g_decay_rate;  // %decay_f64 = sub %c_1_f64, %decay_rate : {f64}
          const float g_decay = float(g_decay_f64);  // %decay = cast %decay_f64 : {f32}
          const double g_rest1 = s_c_1_f64 - g_beta1;  // %rest1 = sub %c_1_f64, %beta1 : {f64}
          const float g_pull = float(g_rest1);  // %pull = cast %rest1 : {f32}
          const float g_pull_size = absolute(g_pull);  // %pull_size = abs %pull : {f32}
          const bool g_from_a = g_pull_size < s_c_0_5_f32;  // %from_a = lt %pull_size, %c_0_5_f32 : {bool}
          const float g_push = g_pull - s_c_1_f32;  // %push = sub %pull, %c_1_f32 : {f32}
          const float g_lerp_coef = g_from_a ? g_pull : g_push;  // %lerp_coef = select %from_a, %pull, %push : {f32}
          const double g_rest_f64 = s_c_1_f64 - g_beta2;  // %rest_f64 = sub %c_1_f64, %beta2 : {f64}
          const float g_rest = float(g_rest_f64);  // %rest = cast %rest_f64 : {f32}
          const float g_keep = float(g_beta2);  // %keep = cast %beta2 : {f32}
          const float g_eps_f32 = float(g_eps);  // %eps_f32 = cast %eps : {f32}
          const i64 t_t0 = global<i64>(ctx.step.states, 1)[tensor_index];  // %t0 = read @step : <i64>
          const i64 t_t = add(t_t0, s_c_1_i64);  // %t = add %t0, %c_1_i64 : <i64>
          const double t_beta_t = powi(g_beta1, i64(t_t));  // %beta_t = powi %beta1, %t : <f64>
          const double t_correction = s_c_1_f64 - t_beta_t;  // %correction = sub %c_1_f64, %beta_t : <f64>
          const double t_rate = g_lr / t_correction;  // %rate = div %lr, %correction : <f64>
          const double t_step_size_f64 = -t_rate;  // %step_size_f64 = neg %rate : <f64>
          const float t_step_size = float(t_step_size_f64);  // %step_size = cast %step_size_f64 : <f32>
          const double t_beta_t_1 = powi(g_beta2, i64(t_t));  // %beta_t.1 = powi %beta2, %t : <f64>
          const double t_correction_1 = s_c_1_f64 - t_beta_t_1;  // %correction.1 = sub %c_1_f64, %beta_t.1 : <f64>
          const double t_correction_root_f64 = __dsqrt_rn(t_correction_1);  // %correction_root_f64 = sqrt %correction.1 : <f64>
          const float t_correction_root = float(t_correction_root_f64);  // %correction_root = cast %correction_root_f64 : <f32>
          sections[work.section].g_decay = g_decay;
          sections[work.section].g_from_a = g_from_a;
          sections[work.section].g_lerp_coef = g_lerp_coef;
          sections[work.section].g_rest = g_rest;
          sections[work.section].g_keep = g_keep;
          sections[work.section].t_step_size = t_step_size;
          sections[work.section].t_correction_root = t_correction_root;
          sections[work.section].g_eps_f32 = g_eps_f32;
        }
        synchronize(work.packed);
        seen = work.packed ? kNone : tensor_index;
      }
      const float g_decay = sections[work.section].g_decay;
      const bool g_from_a = sections[work.section].g_from_a != 0;
      const float g_lerp_coef = sections[work.section].g_lerp_coef;
      const float g_rest = sections[work.section].g_rest;
      const float g_keep = sections[work.section].g_keep;
      const float t_step_size = sections[work.section].t_step_size;
      const float t_correction_root = sections[work.section].t_correction_root;
      const float g_eps_f32 = sections[work.section].g_eps_f32;
      const i32 length = i32(chunk.length);
      const u64 p_b_master = address_of(global<float>(ctx.step.pointers, u64(tensor_index) * 5 + 2) + chunk.begin);
      const u64 p_b_exp_avg = address_of(global<float>(ctx.step.pointers, u64(tensor_index) * 5 + 3) + chunk.begin);
      const u64 p_b_exp_avg_sq = address_of(global<float>(ctx.step.pointers, u64(tensor_index) * 5 + 4) + chunk.begin);
      const u64 p_scratch0 = address_of(global<float>(ctx.step.scratch, 0) + tensor.scratch_base + chunk.begin);
      const i32 skew = skew_of<float, 4>(p_b_master);
      const u32 room_b_master = room_of<float, 4>(p_b_master, skew, length);
      const u32 room_b_exp_avg = room_of<float, 4>(p_b_exp_avg, skew, length);
      const u32 room_b_exp_avg_sq = room_of<float, 4>(p_b_exp_avg_sq, skew, length);
      const u32 room_scratch0 = room_of<float, 4>(p_scratch0, skew, length);
      const i32 stride = i32(work.workers) * 4;
#pragma unroll 1
      for (i32 first = i32(work.worker) * 4 - skew; first < length; first += 1 * stride) {
        u32 in_b_master[4];
        load<Plain, float, 4, 1>(in_b_master, p_b_master, room_b_master, first, stride, length);
        u32 in_b_exp_avg[4];
        load<Plain, float, 4, 1>(in_b_exp_avg, p_b_exp_avg, room_b_exp_avg, first, stride, length);
        u32 in_b_exp_avg_sq[4];
        load<Plain, float, 4, 1>(in_b_exp_avg_sq, p_b_exp_avg_sq, room_b_exp_avg_sq, first, stride, length);
        u32 in_scratch0[4];
        load<Plain, float, 4, 1>(in_scratch0, p_scratch0, room_scratch0, first, stride, length);
        u32 out_b_master[4];
        u32 out_b_exp_avg[4];
        u32 out_b_exp_avg_sq[4];
#pragma unroll
        for (i32 e = 0; e < 4; ++e) {
          const float e_g_clipped = get<float>(in_scratch0, e);  // %g_clipped = mul %g, %clip_coef : [f32]
          const float e_w = get<float>(in_b_master, e);  // %w = load @master : [f32]
          const float e_w_decayed = e_w * g_decay;  // %w_decayed = mul %w, %decay : [f32]
          const float e_exp_avg_in = get<float>(in_b_exp_avg, e);  // %exp_avg_in = load @exp_avg : [f32]
          const float e_exp_avg_sq_in = get<float>(in_b_exp_avg_sq, e);  // %exp_avg_sq_in = load @exp_avg_sq : [f32]
          const float e_lerp_base = g_from_a ? e_exp_avg_in : e_g_clipped;  // %lerp_base = select %from_a, %exp_avg_in, %g_clipped : [f32]
          const float e_distance = e_g_clipped - e_exp_avg_in;  // %distance = sub %g_clipped, %exp_avg_in : [f32]
          const float e_m = __fmaf_rn(g_lerp_coef, e_distance, e_lerp_base);  // %m = fma %lerp_coef, %distance, %lerp_base : [f32]
          const float e_kept = e_exp_avg_sq_in * g_keep;  // %kept = mul %exp_avg_sq_in, %keep : [f32]
          const float e_g_share = g_rest * e_g_clipped;  // %g_share = mul %rest, %g_clipped : [f32]
          const float e_v = __fmaf_rn(e_g_share, e_g_clipped, e_kept);  // %v = fma %g_share, %g_clipped, %kept : [f32]
          const float e_v_root = __fsqrt_rn(e_v);  // %v_root = sqrt %v : [f32]
          const float e_v_corrected = e_v_root / t_correction_root;  // %v_corrected = div %v_root, %correction_root : [f32]
          const float e_denominator = e_v_corrected + g_eps_f32;  // %denominator = add %v_corrected, %eps_f32 : [f32]
          const float e_numerator = t_step_size * e_m;  // %numerator = mul %step_size, %m : [f32]
          const float e_update = e_numerator / e_denominator;  // %update = div %numerator, %denominator : [f32]
          const float e_w_new = e_w_decayed + e_update;  // %w_new = add %w_decayed, %update : [f32]
          put<float>(out_b_exp_avg, e, bits_of(e_m));  // store @exp_avg, %m if %good
          put<float>(out_b_exp_avg_sq, e, bits_of(e_v));  // store @exp_avg_sq, %v if %good
          put<float>(out_b_master, e, bits_of(e_w_new));  // store @master, %w_new if %good
        }
        store<Plain, float, 4, 1>(out_b_exp_avg, p_b_exp_avg, room_b_exp_avg, first, stride, length);
        store<Plain, float, 4, 1>(out_b_exp_avg_sq, p_b_exp_avg_sq, room_b_exp_avg_sq, first, stride, length);
        store<Plain, float, 4, 1>(out_b_master, p_b_master, room_b_master, first, stride, length);
      }
    }
  }
}

struct Step4 {
  u32 s_good;
};

extern "C" __global__ void __launch_bounds__(kThreads, 3)
sf_adamw_copy(const __grid_constant__ abi::DeviceContext ctx) {
  __shared__ Step4 step_4;
  {  // phase copy
    if (threadIdx.x == 0) {
      const bool s_found_inf = global<bool>(ctx.step.results, 0)[0];  // %found_inf = reduce_any %nonfinite : bool
      const float s_sum = global<float>(ctx.step.results, 1)[0];  // %sum = reduce_add %g_square : f32
      const float s_norm = __fsqrt_rn(s_sum);  // %norm = sqrt %sum : f32
      const bool s_norm_finite = is_finite(s_norm);  // %norm_finite = isfinite %norm : bool
      const bool s_norm_nonfinite = !s_norm_finite;  // %norm_nonfinite = not %norm_finite : bool
      const bool s_all_finite = !s_found_inf;  // %all_finite = not %found_inf : bool
      const bool s_norm_overflow = s_norm_nonfinite & s_all_finite;  // %norm_overflow = and %norm_nonfinite, %all_finite : bool
      const bool s_bad = s_found_inf | s_norm_overflow;  // %bad = or %found_inf, %norm_overflow : bool
      const bool s_good = !s_bad;  // %good = not %bad : bool
      step_4.s_good = s_good;
    }
    __syncthreads();
    const bool s_good = step_4.s_good != 0;
    const u32 units = s_good ? unit_count(ctx) : 0;
#pragma unroll 1
    for (u32 turn = blockIdx.x; turn < units; turn += gridDim.x) {
      const u32 unit = units - 1 - turn;
      const Work work = work_of(ctx, unit);
      const abi::Chunk* const entry = chunk_of(ctx, unit);
      if (entry == nullptr) continue;
      const abi::Chunk chunk = *entry;
      const u32 tensor_index = chunk.tensor;
      const abi::Tensor& tensor = ctx.step.tensors[tensor_index];
      if ((tensor.flags & abi::kPresent) == 0) {  // neither loaded nor stored
        continue;
      }
      const i32 length = i32(chunk.length);
      const u64 p_b_weight = address_of(global<f16>(ctx.step.pointers, u64(tensor_index) * 5 + 1) + chunk.begin);
      const u64 p_b_master = address_of(global<float>(ctx.step.pointers, u64(tensor_index) * 5 + 2) + chunk.begin);
      const i32 skew = skew_of<float, 4>(p_b_master);
      const u32 room_b_weight = room_of<f16, 4>(p_b_weight, skew, length);
      const u32 room_b_master = room_of<float, 4>(p_b_master, skew, length);
      const i32 stride = i32(work.workers) * 4;
#pragma unroll 1
      for (i32 first = i32(work.worker) * 4 - skew; first < length; first += 4 * stride) {
        u32 in_b_master[16];
        load<Plain, float, 4, 4>(in_b_master, p_b_master, room_b_master, first, stride, length);
        u32 out_b_weight[8];
#pragma unroll
        for (i32 e = 0; e < 16; ++e) {
          const float e_w_new = get<float>(in_b_master, e);  // %w_new = add %w_decayed, %update : [f32]
          const f16 e_w_copy = f16_from(e_w_new);  // %w_copy = cast %w_new : [f16]
          put<f16>(out_b_weight, e, bits_of(e_w_copy));  // store @weight, %w_copy if %good
        }
        store<Plain, f16, 4, 4>(out_b_weight, p_b_weight, room_b_weight, first, stride, length);
      }
    }
  }
}


extern "C" __global__ void __launch_bounds__(kThreads, 3)
sf_adamw_zero_grad(const __grid_constant__ abi::DeviceContext ctx) {
  const f16 s_92 = f16{0x0000};  // %92 = const 0 : f16
  {  // phase zero_grad
    const u32 units = unit_count(ctx);
#pragma unroll 1
    for (u32 turn = blockIdx.x; turn < units; turn += gridDim.x) {
      const u32 unit = units - 1 - turn;
      const Work work = work_of(ctx, unit);
      const abi::Chunk* const entry = chunk_of(ctx, unit);
      if (entry == nullptr) continue;
      const abi::Chunk chunk = *entry;
      const u32 tensor_index = chunk.tensor;
      const abi::Tensor& tensor = ctx.step.tensors[tensor_index];
      if ((tensor.flags & abi::kPresent) == 0) {  // neither loaded nor stored
        continue;
      }
      const i32 length = i32(chunk.length);
      const u64 p_b_grad = address_of(global<f16>(ctx.step.pointers, u64(tensor_index) * 5 + 0) + chunk.begin);
      const i32 skew = skew_of<f16, 8>(p_b_grad);
      const u32 room_b_grad = room_of<f16, 8>(p_b_grad, skew, length);
      const i32 stride = i32(work.workers) * 8;
#pragma unroll 1
      for (i32 first = i32(work.worker) * 8 - skew; first < length; first += 2 * stride) {
        u32 out_b_grad[8];
#pragma unroll
        for (i32 e = 0; e < 16; ++e) {
          put<f16>(out_b_grad, e, bits_of(s_92));  // store @grad, %92
        }
        store<Plain, f16, 8, 2>(out_b_grad, p_b_grad, room_b_grad, first, stride, length);
      }
    }
  }
}

struct FinishStep {
  float s_scale;
  u32 s_found_inf;
  float s_norm;
  u32 s_norm_overflow;
  u32 s_bad;
  u32 s_good;
  float s_chosen;
  i32 s_chosen_1;
  i32 s_growth_tracker_change;
  float s_coef_used;
};

extern "C" __global__ void __launch_bounds__(kThreads, 3)
sf_adamw_scale(const __grid_constant__ abi::DeviceContext ctx) {
  const float s_c_1e_06_f32 = 0x1.0c6f7ap-20f;  // %c_1e_06_f32 = const 1e-06 : f32
  const float s_c_1_f32 = 0x1p+0f;  // %c_1_f32 = const 1 : f32
  const i64 s_c_1_i64 = 1ll;  // %c_1_i64 = const 1 : i64
  const float s_c_0_f32 = 0x0p+0f;  // %c_0_f32 = const 0 : f32
  const i32 s_c_1_i32 = 1;  // %c_1_i32 = const 1 : i32
  const i32 s_c_0_i32 = 0;  // %c_0_i32 = const 0 : i32
  const float s_smallest = 0x1p-126f;  // %smallest = const 1.1754944e-38 : f32
  if (last_to_arrive(ctx.sync->finished)) {  // nobody reads a state any more
    __shared__ FinishStep own;
    if (threadIdx.x == 0) {
      const u64* const step_args = step_args_of(ctx);
      const double s_max_norm = arg<double>(step_args[0]);  // arg %max_norm : f64 = 1
      const double s_growth_factor = arg<double>(step_args[1]);  // arg %growth_factor : f64 = 2
      const double s_backoff_factor = arg<double>(step_args[2]);  // arg %backoff_factor : f64 = 0.5
      const i32 s_growth_interval = arg<i32>(step_args[3]);  // arg %growth_interval : i32 = 2000
      const float s_scale = global<float>(ctx.step.states, 0)[0];  // %scale = read @scale : f32
      const double s_scale_f64 = double(s_scale);  // %scale_f64 = cast %scale : f64
      const bool s_found_inf = global<bool>(ctx.step.results, 0)[0];  // %found_inf = reduce_any %nonfinite : bool
      const float s_sum = global<float>(ctx.step.results, 1)[0];  // %sum = reduce_add %g_square : f32
      const float s_norm = __fsqrt_rn(s_sum);  // %norm = sqrt %sum : f32
      const bool s_norm_finite = is_finite(s_norm);  // %norm_finite = isfinite %norm : bool
      const bool s_norm_nonfinite = !s_norm_finite;  // %norm_nonfinite = not %norm_finite : bool
      const bool s_all_finite = !s_found_inf;  // %all_finite = not %found_inf : bool
      const bool s_norm_overflow = s_norm_nonfinite & s_all_finite;  // %norm_overflow = and %norm_nonfinite, %all_finite : bool
      const float s_norm_plus = s_norm + s_c_1e_06_f32;  // %norm_plus = add %norm, %c_1e_06_f32 : f32
      const float s_inv_norm = 1.0f / s_norm_plus;  // %inv_norm = rcp %norm_plus : f32
      const float s_max_norm_f32 = float(s_max_norm);  // %max_norm_f32 = cast %max_norm : f32
      const float s_clip_ratio = s_inv_norm * s_max_norm_f32;  // %clip_ratio = mul %inv_norm, %max_norm_f32 : f32
      const float s_clip_coef = minimum(s_clip_ratio, s_c_1_f32);  // %clip_coef = min %clip_ratio, %c_1_f32 : f32
      const bool s_bad = s_found_inf | s_norm_overflow;  // %bad = or %found_inf, %norm_overflow : bool
      const bool s_good = !s_bad;  // %good = not %bad : bool
      const i32 s_growth_tracker_in = global<i32>(ctx.step.states, 2)[0];  // %growth_tracker_in = read @growth_tracker : i32
      const i32 s_tracker_next = add(s_growth_tracker_in, s_c_1_i32);  // %tracker_next = add %growth_tracker_in, %c_1_i32 : i32
      const bool s_growth_due = s_growth_interval <= s_tracker_next;  // %growth_due = le %growth_interval, %tracker_next : bool
      const double s_scale_times = s_scale_f64 * s_growth_factor;  // %scale_times = mul %scale_f64, %growth_factor : f64
      const float s_scale_next = float(s_scale_times);  // %scale_next = cast %scale_times : f32
      const bool s_scale_finite = is_finite(s_scale_next);  // %scale_finite = isfinite %scale_next : bool
      const float s_scale_more = s_scale_finite ? s_scale_next : s_scale;  // %scale_more = select %scale_finite, %scale_next, %scale : f32
      const float s_scale_good = s_growth_due ? s_scale_more : s_scale;  // %scale_good = select %growth_due, %scale_more, %scale : f32
      const i32 s_tracker_good = s_growth_due ? s_c_0_i32 : s_tracker_next;  // %tracker_good = select %growth_due, %c_0_i32, %tracker_next : i32
      const double s_scale_times_1 = s_scale_f64 * s_backoff_factor;  // %scale_times.1 = mul %scale_f64, %backoff_factor : f64
      const float s_scale_next_1 = float(s_scale_times_1);  // %scale_next.1 = cast %scale_times.1 : f32
      const bool s_too_small = s_scale_next_1 < s_smallest;  // %too_small = lt %scale_next.1, %smallest : bool
      const float s_scale_less = s_too_small ? s_scale : s_scale_next_1;  // %scale_less = select %too_small, %scale, %scale_next.1 : f32
      const float s_if_finite = s_norm_overflow ? s_scale : s_scale_good;  // %if_finite = select %norm_overflow, %scale, %scale_good : f32
      const float s_chosen = s_found_inf ? s_scale_less : s_if_finite;  // %chosen = select %found_inf, %scale_less, %if_finite : f32
      const i32 s_if_finite_1 = s_norm_overflow ? s_growth_tracker_in : s_tracker_good;  // %if_finite.1 = select %norm_overflow, %growth_tracker_in, %tracker_good : i32
      const i32 s_chosen_1 = s_found_inf ? s_c_0_i32 : s_if_finite_1;  // %chosen.1 = select %found_inf, %c_0_i32, %if_finite.1 : i32
      const i32 s_growth_tracker_change = sub(s_chosen_1, s_growth_tracker_in);  // %growth_tracker_change = sub %chosen.1, %growth_tracker_in : i32
      const float s_coef_used = s_bad ? s_c_0_f32 : s_clip_coef;  // %coef_used = select %bad, %c_0_f32, %clip_coef : f32
      own.s_scale = s_scale;
      own.s_found_inf = s_found_inf;
      own.s_norm = s_norm;
      own.s_norm_overflow = s_norm_overflow;
      own.s_bad = s_bad;
      own.s_good = s_good;
      own.s_chosen = s_chosen;
      own.s_chosen_1 = s_chosen_1;
      own.s_growth_tracker_change = s_growth_tracker_change;
      own.s_coef_used = s_coef_used;
    }
    __syncthreads();
    const float s_scale = own.s_scale;
    const bool s_found_inf = own.s_found_inf != 0;
    const float s_norm = own.s_norm;
    const bool s_norm_overflow = own.s_norm_overflow != 0;
    const bool s_bad = own.s_bad != 0;
    const bool s_good = own.s_good != 0;
    const float s_chosen = own.s_chosen;
    const i32 s_chosen_1 = own.s_chosen_1;
    const i32 s_growth_tracker_change = own.s_growth_tracker_change;
    const float s_coef_used = own.s_coef_used;
#pragma unroll 1
    for (u32 tensor_index = threadIdx.x; tensor_index < ctx.step.tensor_count; tensor_index += kThreads) {
      const abi::Tensor& tensor = ctx.step.tensors[tensor_index];
      if ((tensor.flags & abi::kPresent) == 0) continue;
      const i64 t_t0 = global<i64>(ctx.step.states, 1)[tensor_index];  // %t0 = read @step : <i64>
      const i64 t_t = add(t_t0, s_c_1_i64);  // %t = add %t0, %c_1_i64 : <i64>
      if (s_good) global<i64>(ctx.step.states, 1)[tensor_index] = t_t;  // write @step, %t if %good
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      global<float>(ctx.step.states, 0)[0] = s_chosen;  // write @scale, %chosen
      global<i32>(ctx.step.states, 2)[0] = s_chosen_1;  // write @growth_tracker, %chosen.1
      global<i32>(ctx.step.states, 3)[0] = s_growth_tracker_change;  // write @growth_tracker_change, %growth_tracker_change
      global<bool>(ctx.step.states, 4)[0] = s_found_inf;  // write @found_inf, %found_inf
      global<float>(ctx.step.states, 5)[0] = s_norm;  // write @grad_norm, %norm
      global<float>(ctx.step.states, 6)[0] = s_coef_used;  // write @clip_coef, %coef_used
      global<bool>(ctx.step.states, 7)[0] = s_norm_overflow;  // write @norm_overflow, %norm_overflow
      global<bool>(ctx.step.states, 8)[0] = s_bad;  // write @skipped, %bad
      global<float>(ctx.step.states, 9)[0] = s_scale;  // write @loss_scale, %scale
      global<float>(ctx.step.states, 10)[0] = s_chosen;  // write @next_loss_scale, %chosen
      const u32 number = count_step(ctx);
      if (ctx.reports != nullptr) {
        u64* const record = ctx.reports + u64(number % ctx.report_capacity) * 8;
        withdraw(record);
        record[1] = raw_of(global<bool>(ctx.step.states, 4)[0]);  // report @found_inf
        record[2] = raw_of(global<float>(ctx.step.states, 5)[0]);  // report @grad_norm
        record[3] = raw_of(global<float>(ctx.step.states, 6)[0]);  // report @clip_coef
        record[4] = raw_of(global<bool>(ctx.step.states, 7)[0]);  // report @norm_overflow
        record[5] = raw_of(global<bool>(ctx.step.states, 8)[0]);  // report @skipped
        record[6] = raw_of(global<float>(ctx.step.states, 9)[0]);  // report @loss_scale
        record[7] = raw_of(global<float>(ctx.step.states, 10)[0]);  // report @next_loss_scale
        publish(record, number);
      }
    }
  }
}

}  // namespace stepfuse
