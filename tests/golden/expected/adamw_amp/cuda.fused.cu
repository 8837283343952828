// step @adamw, form fused: generated, self-contained CUDA C++.
namespace stepfuse {
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
}
// … abi.hpp …
namespace stepfuse {
// … prelude.cuh …

struct sf_adamw_0_step {
  float s_inv_scale;
};
struct sf_adamw_1_step {
  float s_inv_scale;
  float s_clip_coef;
  bool s_good;
};
struct sf_adamw_1_chunk {
  float g_44;
  bool g_52;
  float g_54;
  float g_59;
  float g_60;
  float t_step_size;
  float g_eps_f32;
  float t_79;
};
struct sf_adamw_finish {
  float s_scale;
  bool s_found_inf;
  float s_norm;
  bool s_norm_overflow;
  bool s_37;
  bool s_good;
  float s_114;
  i32 s_117;
  float s_121;
};

extern "C" __global__ void __launch_bounds__(256, 3)
sf_adamw(const __grid_constant__ abi::DeviceContext ctx) {
  __shared__ Lanes lanes;
  const float s_30 = 0x1.0c6f7ap-20f;  // %30 = const 1e-06 : f32
  const float s_34 = 0x1p+0f;  // %34 = const 1 : f32
  const double s_42 = 0x1p+0;  // %42 = const 1 : f64
  const float s_50 = 0x1p-1f;  // %50 = const 0.5 : f32
  const i64 s_67 = 1ll;  // %67 = const 1 : i64
  const float s_91 = 0x0p+0f;  // %91 = const 0 : f32
  const f16 s_92 = f16{0x0000};  // %92 = const 0 : f16
  const i32 s_96 = 1;  // %96 = const 1 : i32
  const i32 s_105 = 0;  // %105 = const 0 : i32
  const float s_110 = 0x1p-126f;  // %110 = const 1.1754944e-38 : f32
  {  // phase reduce
    __shared__ sf_adamw_0_step step;
    if (threadIdx.x == 0) {
      const float s_scale = global<float>(ctx.step.states, 0)[0];  // %scale = read @scale : f32
      const double s_13 = double(s_scale);  // %13 = cast %scale : f64
      const double s_14 = 1.0 / s_13;  // %14 = rcp %13 : f64
      const float s_inv_scale = float(s_14);  // %inv_scale = cast %14 : f32
      step.s_inv_scale = s_inv_scale;
    }
    __syncthreads();
    const float s_inv_scale = step.s_inv_scale;
    const u32 units = unit_count(ctx);
#pragma unroll 1
    for (u32 turn = blockIdx.x; turn < units; turn += gridDim.x) {
      const u32 unit = turn;
      const Work work = work_of(ctx, unit);
      const u32 index = chunk_of(ctx, unit);
      if (index >= ctx.step.chunk_count) continue;
      const abi::Chunk chunk = ctx.step.chunks[index];
      const u32 tensor_index = chunk.tensor;
      const abi::Tensor& tensor = ctx.step.tensors[tensor_index];
      if ((tensor.flags & abi::kPresent) == 0) {  // neither loaded nor stored
        if (work.worker == 0) {
          global<bool>(ctx.step.slots, 0)[chunk.slot] = false;
          global<float>(ctx.step.slots, 1)[chunk.slot] = Add::identity<float>();
        }
        continue;
      }
      const i32 length = i32(chunk.length);
      const u32 first_lane = work.packed ? 0 : u32(tensor.offset + chunk.begin) % 2048;
      LanePlace place = {0, work.workers * 4};
      bool acc_s_found_inf = false;
      float acc_s_22[8];
#pragma unroll
      for (i32 e = 0; e < 8; ++e) acc_s_22[e] = Add::identity<float>();
      const f16* const p_grad = global<f16>(ctx.step.pointers, u64(tensor_index) * 5 + 0) + chunk.begin;
      const i32 skew = skew_of<8>(p_grad);
      const bool whole_grad = whole_tiles<8>(p_grad, skew);
      const i32 stride = i32(work.workers) * 8;
      place = lane_place<8>(skew, work.worker, work.workers, first_lane);
#pragma unroll 1
      for (i32 first = i32(work.worker) * 8 - skew; first < length; first += 2 * stride) {
        f16 in_grad[16];
        load<8, 2>(in_grad, p_grad, whole_grad, first, stride, length);
#pragma unroll
        for (i32 e = 0; e < 16; ++e) {
          const i32 at = first + e / 8 * stride + e % 8;
          const f16 e_grad = in_grad[e];  // %grad = load @grad : [f16]
          const float e_11 = f32_from(e_grad);  // %11 = cast %grad : [f32]
          const float e_g = e_11 * s_inv_scale;  // %g = mul %11, %inv_scale : [f32]
          const bool e_17 = is_finite(e_11);  // %17 = isfinite %11 : [bool]
          const bool e_18 = !e_17;  // %18 = not %17 : [bool]
          const float e_21 = e_g * e_g;  // %21 = mul %g, %g : [f32]
          acc_s_found_inf |= e_18 & (u32(at) < u32(length));  // %found_inf = reduce_any %18 : bool
          if (u32(at) < u32(length)) acc_s_22[e % 8] = Add::combine(acc_s_22[e % 8], e_21);  // %22 = reduce_add %21 : f32
        }
      }
      any_chunk(acc_s_found_inf, work.packed, &global<bool>(ctx.step.slots, 0)[chunk.slot]);  // %found_inf = reduce_any %18 : bool
      fold_chunk<Add>(acc_s_22, place, work.packed, lanes, &global<float>(ctx.step.slots, 1)[chunk.slot]);  // %22 = reduce_add %21 : f32
    }
  }
  {  // grid barrier
    u32 before = 0;
    if (threadIdx.x == 0) before = load_acquire(ctx.sync->generation);
    if (last_to_arrive(ctx.sync->arrived)) {
      {  // %found_inf = reduce_any %18 : bool
        bool* const slots = global<bool>(ctx.step.slots, 0);
        bool* const result = global<bool>(ctx.step.results, 0);
        any_list(slots, nullptr, ctx.step.chunk_count, result);
      }
      {  // %22 = reduce_add %21 : f32
        float* const slots = global<float>(ctx.step.slots, 1);
        float* const result = global<float>(ctx.step.results, 1);
        fold_list<Add>(slots, nullptr, ctx.step.chunk_count, result, lanes);
      }
      __syncthreads();
      if (threadIdx.x == 0) store_release(ctx.sync->generation, before + 1);
    } else {
      wait_for(ctx.sync->generation, before);
    }
    __syncthreads();
  }
  {  // phase update
    __shared__ sf_adamw_1_step step;
    if (threadIdx.x == 0) {
      const double s_max_norm = step_arg<double>(ctx, 0);  // arg %max_norm : f64 = 1
      const float s_scale = global<float>(ctx.step.states, 0)[0];  // %scale = read @scale : f32
      const double s_13 = double(s_scale);  // %13 = cast %scale : f64
      const double s_14 = 1.0 / s_13;  // %14 = rcp %13 : f64
      const float s_inv_scale = float(s_14);  // %inv_scale = cast %14 : f32
      const bool s_found_inf = global<bool>(ctx.step.results, 0)[0];  // %found_inf = reduce_any %18 : bool
      const float s_22 = global<float>(ctx.step.results, 1)[0];  // %22 = reduce_add %21 : f32
      const float s_norm = __fsqrt_rn(s_22);  // %norm = sqrt %22 : f32
      const bool s_24 = is_finite(s_norm);  // %24 = isfinite %norm : bool
      const bool s_25 = !s_24;  // %25 = not %24 : bool
      const bool s_26 = !s_found_inf;  // %26 = not %found_inf : bool
      const bool s_norm_overflow = s_25 & s_26;  // %norm_overflow = and %25, %26 : bool
      const float s_max_norm_f32 = float(s_max_norm);  // %max_norm_f32 = cast %max_norm : f32
      const float s_31 = s_norm + s_30;  // %31 = add %norm, %30 : f32
      const float s_32 = 1.0f / s_31;  // %32 = rcp %31 : f32
      const float s_33 = s_32 * s_max_norm_f32;  // %33 = mul %32, %max_norm_f32 : f32
      const float s_clip_coef = minimum(s_33, s_34);  // %clip_coef = min %33, %34 : f32
      const bool s_37 = s_found_inf | s_norm_overflow;  // %37 = or %found_inf, %norm_overflow : bool
      const bool s_good = !s_37;  // %good = not %37 : bool
      step.s_inv_scale = s_inv_scale;
      step.s_clip_coef = s_clip_coef;
      step.s_good = s_good;
    }
    __syncthreads();
    const float s_inv_scale = step.s_inv_scale;
    const float s_clip_coef = step.s_clip_coef;
    const bool s_good = step.s_good;
    const u32 units = unit_count(ctx);
    __shared__ sf_adamw_1_chunk sections[1 + kWarps];
    u32 seen = kNone;  // the tensor whose values stand in section 0
#pragma unroll 1
    for (u32 turn = blockIdx.x; turn < units; turn += gridDim.x) {
      const u32 unit = units - 1 - turn;
      const Work work = work_of(ctx, unit);
      const u32 index = chunk_of(ctx, unit);
      if (index >= ctx.step.chunk_count) continue;
      const abi::Chunk chunk = ctx.step.chunks[index];
      const u32 tensor_index = chunk.tensor;
      const abi::Tensor& tensor = ctx.step.tensors[tensor_index];
      if ((tensor.flags & abi::kPresent) == 0) {  // neither loaded nor stored
        continue;
      }
      if (work.packed || tensor_index != seen) {
        synchronize(work.packed);  // nobody reads the last tensor's values any more
        if (work.worker == 0) {
          const u32 group = tensor.group;
          const double g_lr = group_arg<double>(ctx, 4, group * 5 + 0);  // arg %lr : {f64} = 0.001
          const double g_beta1 = group_arg<double>(ctx, 4, group * 5 + 1);  // arg %beta1 : {f64} = 0.9
          const double g_beta2 = group_arg<double>(ctx, 4, group * 5 + 2);  // arg %beta2 : {f64} = 0.999
          const double g_eps = group_arg<double>(ctx, 4, group * 5 + 3);  // arg %eps : {f64} = 1e-08
          const double g_weight_decay = group_arg<double>(ctx, 4, group * 5 + 4);  // arg %weight_decay : {f64} = 0.01
          const double g_41 = g_lr * g_weight_decay;  // %41 = mul %lr, %weight_decay : {f64}
          const double g_43 = s_42 - g_41;  // %43 = sub %42, %41 : {f64}
          const float g_44 = float(g_43);  // %44 = cast %43 : {f32}
          const double g_48 = s_42 - g_beta1;  // %48 = sub %42, %beta1 : {f64}
          const float g_49 = float(g_48);  // %49 = cast %48 : {f32}
          const float g_51 = fabsf(g_49);  // %51 = abs %49 : {f32}
          const bool g_52 = g_51 < s_50;  // %52 = lt %51, %50 : {bool}
          const float g_53 = g_49 - s_34;  // %53 = sub %49, %34 : {f32}
          const float g_54 = g_52 ? g_49 : g_53;  // %54 = select %52, %49, %53 : {f32}
          const double g_58 = s_42 - g_beta2;  // %58 = sub %42, %beta2 : {f64}
          const float g_59 = float(g_58);  // %59 = cast %58 : {f32}
          const float g_60 = float(g_beta2);  // %60 = cast %beta2 : {f32}
          const float g_eps_f32 = float(g_eps);  // %eps_f32 = cast %eps : {f32}
          const i64 t_t0 = global<i64>(ctx.step.states, 1)[tensor_index];  // %t0 = read @step : <i64>
          const i64 t_t = add(t_t0, s_67);  // %t = add %t0, %67 : <i64>
          const double t_70 = powi(g_beta1, i64(t_t));  // %70 = powi %beta1, %t : <f64>
          const double t_bias_correction1 = s_42 - t_70;  // %bias_correction1 = sub %42, %70 : <f64>
          const double t_72 = powi(g_beta2, i64(t_t));  // %72 = powi %beta2, %t : <f64>
          const double t_bias_correction2 = s_42 - t_72;  // %bias_correction2 = sub %42, %72 : <f64>
          const double t_74 = g_lr / t_bias_correction1;  // %74 = div %lr, %bias_correction1 : <f64>
          const double t_75 = -t_74;  // %75 = neg %74 : <f64>
          const float t_step_size = float(t_75);  // %step_size = cast %75 : <f32>
          const double t_78 = __dsqrt_rn(t_bias_correction2);  // %78 = sqrt %bias_correction2 : <f64>
          const float t_79 = float(t_78);  // %79 = cast %78 : <f32>
          sections[work.section].g_44 = g_44;
          sections[work.section].g_52 = g_52;
          sections[work.section].g_54 = g_54;
          sections[work.section].g_59 = g_59;
          sections[work.section].g_60 = g_60;
          sections[work.section].t_step_size = t_step_size;
          sections[work.section].g_eps_f32 = g_eps_f32;
          sections[work.section].t_79 = t_79;
        }
        synchronize(work.packed);
        seen = work.packed ? kNone : tensor_index;
      }
      const float g_44 = sections[work.section].g_44;
      const bool g_52 = sections[work.section].g_52;
      const float g_54 = sections[work.section].g_54;
      const float g_59 = sections[work.section].g_59;
      const float g_60 = sections[work.section].g_60;
      const float t_step_size = sections[work.section].t_step_size;
      const float g_eps_f32 = sections[work.section].g_eps_f32;
      const float t_79 = sections[work.section].t_79;
      const i32 length = i32(chunk.length);
      if (s_good) {
        f16* const p_grad = global<f16>(ctx.step.pointers, u64(tensor_index) * 5 + 0) + chunk.begin;
        f16* const p_weight = global<f16>(ctx.step.pointers, u64(tensor_index) * 5 + 1) + chunk.begin;
        float* const p_master = global<float>(ctx.step.pointers, u64(tensor_index) * 5 + 2) + chunk.begin;
        float* const p_exp_avg = global<float>(ctx.step.pointers, u64(tensor_index) * 5 + 3) + chunk.begin;
        float* const p_exp_avg_sq = global<float>(ctx.step.pointers, u64(tensor_index) * 5 + 4) + chunk.begin;
        const i32 skew = skew_of<4>(p_master);
        const bool whole_grad = whole_tiles<4>(p_grad, skew);
        const bool whole_weight = whole_tiles<4>(p_weight, skew);
        const bool whole_master = whole_tiles<4>(p_master, skew);
        const bool whole_exp_avg = whole_tiles<4>(p_exp_avg, skew);
        const bool whole_exp_avg_sq = whole_tiles<4>(p_exp_avg_sq, skew);
        const i32 stride = i32(work.workers) * 4;
#pragma unroll 1
        for (i32 first = i32(work.worker) * 4 - skew; first < length; first += 1 * stride) {
          f16 in_grad[4];
          load<4, 1>(in_grad, p_grad, whole_grad, first, stride, length);
          float in_master[4];
          load<4, 1>(in_master, p_master, whole_master, first, stride, length);
          float in_exp_avg[4];
          load<4, 1>(in_exp_avg, p_exp_avg, whole_exp_avg, first, stride, length);
          float in_exp_avg_sq[4];
          load<4, 1>(in_exp_avg_sq, p_exp_avg_sq, whole_exp_avg_sq, first, stride, length);
          f16 out_grad[4];
          f16 out_weight[4];
          float out_master[4];
          float out_exp_avg[4];
          float out_exp_avg_sq[4];
#pragma unroll
          for (i32 e = 0; e < 4; ++e) {
            const f16 e_grad = in_grad[e];  // %grad = load @grad : [f16]
            const float e_11 = f32_from(e_grad);  // %11 = cast %grad : [f32]
            const float e_g = e_11 * s_inv_scale;  // %g = mul %11, %inv_scale : [f32]
            const float e_g_clipped = e_g * s_clip_coef;  // %g_clipped = mul %g, %clip_coef : [f32]
            const float e_w = in_master[e];  // %w = load @master : [f32]
            const float e_45 = e_w * g_44;  // %45 = mul %w, %44 : [f32]
            const float e_exp_avg_in = in_exp_avg[e];  // %exp_avg_in = load @exp_avg : [f32]
            const float e_exp_avg_sq_in = in_exp_avg_sq[e];  // %exp_avg_sq_in = load @exp_avg_sq : [f32]
            const float e_55 = g_52 ? e_exp_avg_in : e_g_clipped;  // %55 = select %52, %exp_avg_in, %g_clipped : [f32]
            const float e_56 = e_g_clipped - e_exp_avg_in;  // %56 = sub %g_clipped, %exp_avg_in : [f32]
            const float e_m = __fmaf_rn(g_54, e_56, e_55);  // %m = fma %54, %56, %55 : [f32]
            const float e_61 = e_exp_avg_sq_in * g_60;  // %61 = mul %exp_avg_sq_in, %60 : [f32]
            const float e_62 = g_59 * e_g_clipped;  // %62 = mul %59, %g_clipped : [f32]
            const float e_v = __fmaf_rn(e_62, e_g_clipped, e_61);  // %v = fma %62, %g_clipped, %61 : [f32]
            const float e_80 = __fsqrt_rn(e_v);  // %80 = sqrt %v : [f32]
            const float e_81 = e_80 / t_79;  // %81 = div %80, %79 : [f32]
            const float e_82 = e_81 + g_eps_f32;  // %82 = add %81, %eps_f32 : [f32]
            const float e_83 = t_step_size * e_m;  // %83 = mul %step_size, %m : [f32]
            const float e_84 = e_83 / e_82;  // %84 = div %83, %82 : [f32]
            const float e_w_new = e_45 + e_84;  // %w_new = add %45, %84 : [f32]
            const f16 e_88 = f16_from(e_w_new);  // %88 = cast %w_new : [f16]
            out_exp_avg[e] = e_m;  // store @exp_avg, %m if %good
            out_exp_avg_sq[e] = e_v;  // store @exp_avg_sq, %v if %good
            out_master[e] = e_w_new;  // store @master, %w_new if %good
            out_weight[e] = e_88;  // store @weight, %88 if %good
            out_grad[e] = s_92;  // store @grad, %92
          }
          store<4, 1>(out_exp_avg, p_exp_avg, whole_exp_avg, first, stride, length, ~0u);
          store<4, 1>(out_exp_avg_sq, p_exp_avg_sq, whole_exp_avg_sq, first, stride, length, ~0u);
          store<4, 1>(out_master, p_master, whole_master, first, stride, length, ~0u);
          store<4, 1>(out_weight, p_weight, whole_weight, first, stride, length, ~0u);
          store<4, 1>(out_grad, p_grad, whole_grad, first, stride, length, ~0u);
        }
      } else {
        f16* const p_grad = global<f16>(ctx.step.pointers, u64(tensor_index) * 5 + 0) + chunk.begin;
        const i32 skew = skew_of<8>(p_grad);
        const bool whole_grad = whole_tiles<8>(p_grad, skew);
        const i32 stride = i32(work.workers) * 8;
#pragma unroll 1
        for (i32 first = i32(work.worker) * 8 - skew; first < length; first += 2 * stride) {
          f16 out_grad[16];
#pragma unroll
          for (i32 e = 0; e < 16; ++e) {
            out_grad[e] = s_92;  // store @grad, %92
          }
          store<8, 2>(out_grad, p_grad, whole_grad, first, stride, length, ~0u);
        }
      }
    }
  }
  if (last_to_arrive(ctx.sync->finished)) {  // nobody reads a state any more
    __shared__ sf_adamw_finish step;
    if (threadIdx.x == 0) {
      const double s_max_norm = step_arg<double>(ctx, 0);  // arg %max_norm : f64 = 1
      const double s_growth_factor = step_arg<double>(ctx, 1);  // arg %growth_factor : f64 = 2
      const double s_backoff_factor = step_arg<double>(ctx, 2);  // arg %backoff_factor : f64 = 0.5
      const i32 s_growth_interval = step_arg<i32>(ctx, 3);  // arg %growth_interval : i32 = 2000
      const float s_scale = global<float>(ctx.step.states, 0)[0];  // %scale = read @scale : f32
      const double s_13 = double(s_scale);  // %13 = cast %scale : f64
      const bool s_found_inf = global<bool>(ctx.step.results, 0)[0];  // %found_inf = reduce_any %18 : bool
      const float s_22 = global<float>(ctx.step.results, 1)[0];  // %22 = reduce_add %21 : f32
      const float s_norm = __fsqrt_rn(s_22);  // %norm = sqrt %22 : f32
      const bool s_24 = is_finite(s_norm);  // %24 = isfinite %norm : bool
      const bool s_25 = !s_24;  // %25 = not %24 : bool
      const bool s_26 = !s_found_inf;  // %26 = not %found_inf : bool
      const bool s_norm_overflow = s_25 & s_26;  // %norm_overflow = and %25, %26 : bool
      const float s_max_norm_f32 = float(s_max_norm);  // %max_norm_f32 = cast %max_norm : f32
      const float s_31 = s_norm + s_30;  // %31 = add %norm, %30 : f32
      const float s_32 = 1.0f / s_31;  // %32 = rcp %31 : f32
      const float s_33 = s_32 * s_max_norm_f32;  // %33 = mul %32, %max_norm_f32 : f32
      const float s_clip_coef = minimum(s_33, s_34);  // %clip_coef = min %33, %34 : f32
      const bool s_37 = s_found_inf | s_norm_overflow;  // %37 = or %found_inf, %norm_overflow : bool
      const bool s_good = !s_37;  // %good = not %37 : bool
      const i32 s_growth_tracker_in = global<i32>(ctx.step.states, 2)[0];  // %growth_tracker_in = read @growth_tracker : i32
      const i32 s_97 = add(s_growth_tracker_in, s_96);  // %97 = add %growth_tracker_in, %96 : i32
      const bool s_growth_due = s_growth_interval <= s_97;  // %growth_due = le %growth_interval, %97 : bool
      const double s_100 = s_13 * s_growth_factor;  // %100 = mul %13, %growth_factor : f64
      const float s_101 = float(s_100);  // %101 = cast %100 : f32
      const bool s_102 = is_finite(s_101);  // %102 = isfinite %101 : bool
      const float s_103 = s_102 ? s_101 : s_scale;  // %103 = select %102, %101, %scale : f32
      const float s_104 = s_growth_due ? s_103 : s_scale;  // %104 = select %growth_due, %103, %scale : f32
      const i32 s_106 = s_growth_due ? s_105 : s_97;  // %106 = select %growth_due, %105, %97 : i32
      const double s_108 = s_13 * s_backoff_factor;  // %108 = mul %13, %backoff_factor : f64
      const float s_109 = float(s_108);  // %109 = cast %108 : f32
      const bool s_111 = s_109 < s_110;  // %111 = lt %109, %110 : bool
      const float s_112 = s_111 ? s_scale : s_109;  // %112 = select %111, %scale, %109 : f32
      const float s_113 = s_norm_overflow ? s_scale : s_104;  // %113 = select %norm_overflow, %scale, %104 : f32
      const float s_114 = s_found_inf ? s_112 : s_113;  // %114 = select %found_inf, %112, %113 : f32
      const i32 s_116 = s_norm_overflow ? s_growth_tracker_in : s_106;  // %116 = select %norm_overflow, %growth_tracker_in, %106 : i32
      const i32 s_117 = s_found_inf ? s_105 : s_116;  // %117 = select %found_inf, %105, %116 : i32
      const float s_121 = s_37 ? s_91 : s_clip_coef;  // %121 = select %37, %91, %clip_coef : f32
      step.s_scale = s_scale;
      step.s_found_inf = s_found_inf;
      step.s_norm = s_norm;
      step.s_norm_overflow = s_norm_overflow;
      step.s_37 = s_37;
      step.s_good = s_good;
      step.s_114 = s_114;
      step.s_117 = s_117;
      step.s_121 = s_121;
    }
    __syncthreads();
    const float s_scale = step.s_scale;
    const bool s_found_inf = step.s_found_inf;
    const float s_norm = step.s_norm;
    const bool s_norm_overflow = step.s_norm_overflow;
    const bool s_37 = step.s_37;
    const bool s_good = step.s_good;
    const float s_114 = step.s_114;
    const i32 s_117 = step.s_117;
    const float s_121 = step.s_121;
#pragma unroll 1
    for (u32 tensor_index = threadIdx.x; tensor_index < ctx.step.tensor_count; tensor_index += kThreads) {
      const abi::Tensor& tensor = ctx.step.tensors[tensor_index];
      if ((tensor.flags & abi::kPresent) == 0) continue;
      const i64 t_t0 = global<i64>(ctx.step.states, 1)[tensor_index];  // %t0 = read @step : <i64>
      const i64 t_t = add(t_t0, s_67);  // %t = add %t0, %67 : <i64>
      if (s_good) global<i64>(ctx.step.states, 1)[tensor_index] = t_t;  // write @step, %t if %good
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      global<float>(ctx.step.states, 0)[0] = s_114;  // write @scale, %114
      global<i32>(ctx.step.states, 2)[0] = s_117;  // write @growth_tracker, %117
      global<bool>(ctx.step.states, 3)[0] = s_found_inf;  // write @found_inf, %found_inf
      global<float>(ctx.step.states, 4)[0] = s_norm;  // write @grad_norm, %norm
      global<float>(ctx.step.states, 5)[0] = s_121;  // write @clip_coef, %121
      global<bool>(ctx.step.states, 6)[0] = s_norm_overflow;  // write @norm_overflow, %norm_overflow
      global<bool>(ctx.step.states, 7)[0] = s_37;  // write @skipped, %37
      global<float>(ctx.step.states, 8)[0] = s_scale;  // write @loss_scale, %scale
    }
  }
}

}  // namespace stepfuse
