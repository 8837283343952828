// step @sgd, form fused: generated, self-contained CUDA C++.
namespace stepfuse {
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
}
// … abi.hpp …
namespace stepfuse {
// … prelude.cuh …

struct Step1 {
  u32 s_found_inf;
  u32 s_norm_overflow;
  u32 s_bad;
  u32 s_good;
};
struct Chunk1 {
  float g_clip_coef;
  u32 g_no_decay;
  float g_weight_decay_f32;
  float g_descent;
};

extern "C" __global__ void __launch_bounds__(kThreads, 3)
sf_sgd(const __grid_constant__ abi::DeviceContext ctx) {
  __shared__ Lanes lanes;
  const float s_c_1e_06_f32 = 0x1.0c6f7ap-20f;  // %c_1e_06_f32 = const 1e-06 : f32
  const float s_c_1_f32 = 0x1p+0f;  // %c_1_f32 = const 1 : f32
  const double s_c_0_f64 = 0x0p+0;  // %c_0_f64 = const 0 : f64
  const float s_c_0_f32 = 0x0p+0f;  // %c_0_f32 = const 0 : f32
  {  // phase reduce
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
          global<float>(ctx.step.slots, 1)[chunk.slot] = Add::identity<float>();
        }
        continue;
      }
      const i32 length = i32(chunk.length);
      const u32 first_lane = work.packed ? 0 : u32(tensor.offset + chunk.begin) % 2048;
      LanePlace place = {0, work.workers * 4};
      bool acc_s_found_inf = false;
      float acc_g_sum[8];
#pragma unroll
      for (i32 e = 0; e < 8; ++e) acc_g_sum[e] = Add::identity<float>();
      const u64 p_b_grad = address_of(global<float>(ctx.step.pointers, u64(tensor_index) * 2 + 0) + chunk.begin);
      const i32 skew = skew_of<float, 4>(p_b_grad);
      const u32 room_b_grad = room_of<float, 4>(p_b_grad, skew, length);
      const i32 stride = i32(work.workers) * 4;
      place = lane_place<4>(skew, work.worker, work.workers, first_lane);
#pragma unroll 1
      for (i32 first = i32(work.worker) * 4 - skew; first < length; first += 4 * stride) {
        u32 in_b_grad[16];
        load<Plain, float, 4, 4>(in_b_grad, p_b_grad, room_b_grad, first, stride, length);
#pragma unroll
        for (i32 e = 0; e < 16; ++e) {
          const i32 at = first + e / 4 * stride + e % 4;
          const float e_grad = get<float>(in_b_grad, e);  // %grad = load @grad : [f32]
          const bool e_finite = is_finite(e_grad);  // %finite = isfinite %grad : [bool]
          const bool e_nonfinite = !e_finite;  // %nonfinite = not %finite : [bool]
          const float e_g_square = e_grad * e_grad;  // %g_square = mul %grad, %grad : [f32]
          acc_s_found_inf |= e_nonfinite & (u32(at) < u32(length));  // %found_inf = reduce_any %nonfinite : bool
          acc_g_sum[e % 8] = u32(at) < u32(length) ? Add::combine(acc_g_sum[e % 8], e_g_square) : acc_g_sum[e % 8];  // %sum = reduce_add %g_square : {f32}
        }
      }
      any_chunk(acc_s_found_inf, work.packed, &global<bool>(ctx.step.slots, 0)[chunk.slot]);  // %found_inf = reduce_any %nonfinite : bool
      fold_chunk<Add>(acc_g_sum, place, work.packed, lanes, &global<float>(ctx.step.slots, 1)[chunk.slot]);  // %sum = reduce_add %g_square : {f32}
    }
  }
  {  // grid barrier
    u32 before = 0;
    if (threadIdx.x == 0) before = load_acquire(ctx.sync->generation);
    if (last_to_arrive(ctx.sync->arrived)) {
      any_list(global<bool>(ctx.step.slots, 0), nullptr, ctx.step.chunk_count, global<bool>(ctx.step.results, 0));  // %found_inf = reduce_any %nonfinite : bool
      fold_parts<Add>(ctx.step.parts[4], global<float>(ctx.step.slots, 1), global<float>(ctx.step.results, 1), lanes);  // %sum = reduce_add %g_square : {f32}
      {  // roll up group values
        __syncthreads();  // results stand
#pragma unroll 1
        for (u32 group = threadIdx.x; group < ctx.step.group_count; group += kThreads) {
          const float g_sum = global<float>(ctx.step.results, 1)[group];  // %sum = reduce_add %g_square : {f32}
          const float g_norm = __fsqrt_rn(g_sum);  // %norm = sqrt %sum : {f32}
          const bool g_norm_finite = is_finite(g_norm);  // %norm_finite = isfinite %norm : {bool}
          const bool g_norm_nonfinite = !g_norm_finite;  // %norm_nonfinite = not %norm_finite : {bool}
          global<bool>(ctx.step.slots, 2)[group] = g_norm_nonfinite;  // %any_norm = reduce_any %norm_nonfinite : bool
        }
        __syncthreads();
        any_list(global<bool>(ctx.step.slots, 2), nullptr, ctx.step.group_count, global<bool>(ctx.step.results, 2));  // %any_norm = reduce_any %norm_nonfinite : bool
      }
      __syncthreads();
      if (threadIdx.x == 0) store_release(ctx.sync->generation, before + 1);
    } else {
      wait_for(ctx.sync->generation, before);
    }
    __syncthreads();
  }
  __shared__ Step1 step_1;
  {  // phase update
    if (threadIdx.x == 0) {
      const bool s_found_inf = global<bool>(ctx.step.results, 0)[0];  // %found_inf = reduce_any %nonfinite : bool
      const bool s_any_norm = global<bool>(ctx.step.results, 2)[0];  // %any_norm = reduce_any %norm_nonfinite : bool
      const bool s_all_finite = !s_found_inf;  // %all_finite = not %found_inf : bool
      const bool s_norm_overflow = s_any_norm & s_all_finite;  // %norm_overflow = and %any_norm, %all_finite : bool
      const bool s_bad = s_found_inf | s_norm_overflow;  // %bad = or %found_inf, %norm_overflow : bool
      const bool s_good = !s_bad;  // %good = not %bad : bool
      step_1.s_found_inf = s_found_inf;
      step_1.s_norm_overflow = s_norm_overflow;
      step_1.s_bad = s_bad;
      step_1.s_good = s_good;
    }
    __syncthreads();
    const bool s_good = step_1.s_good != 0;
    const u32 units = s_good ? unit_count(ctx) : 0;
    __shared__ Chunk1 sections[1 + kWarps];
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
          const u64* const group_args = group_args_of(ctx, 0, group * 3);
          const double g_lr = arg<double>(group_args[0]);  // arg %lr : {f64} = 0.001
          const double g_weight_decay = arg<double>(group_args[1]);  // arg %weight_decay : {f64} = 0
          const double g_max_norm = arg<double>(group_args[2]);  // arg %max_norm : {f64} = 1
          const float g_sum = global<float>(ctx.step.results, 1)[group];  // %sum = reduce_add %g_square : {f32}
          const float g_norm = __fsqrt_rn(g_sum);  // %norm = sqrt %sum : {f32}
          const float g_norm_plus = g_norm + s_c_1e_06_f32;  // %norm_plus = add %norm, %c_1e_06_f32 : {f32}
          const float g_inv_norm = 1.0f / g_norm_plus;  // %inv_norm = rcp %norm_plus : {f32}
          const float g_max_norm_f32 = float(g_max_norm);  // %max_norm_f32 = cast %max_norm : {f32}
          const float g_clip_ratio = g_inv_norm * g_max_norm_f32;  // %clip_ratio = mul %inv_norm, %max_norm_f32 : {f32}
          const float g_clip_coef = minimum(g_clip_ratio, s_c_1_f32);  // %clip_coef = min %clip_ratio, %c_1_f32 : {f32}
          const bool g_no_decay = g_weight_decay == s_c_0_f64;  // %no_decay = eq %weight_decay, %c_0_f64 : {bool}
          const float g_weight_decay_f32 = float(g_weight_decay);  // %weight_decay_f32 = cast %weight_decay : {f32}
          const float g_lr_f32 = float(g_lr);  // %lr_f32 = cast %lr : {f32}
          const float g_descent = -g_lr_f32;  // %descent = neg %lr_f32 : {f32}
          sections[work.section].g_clip_coef = g_clip_coef;
          sections[work.section].g_no_decay = g_no_decay;
          sections[work.section].g_weight_decay_f32 = g_weight_decay_f32;
          sections[work.section].g_descent = g_descent;
        }
        synchronize(work.packed);
        seen = work.packed ? kNone : tensor_index;
      }
      const float g_clip_coef = sections[work.section].g_clip_coef;
      const bool g_no_decay = sections[work.section].g_no_decay != 0;
      const float g_weight_decay_f32 = sections[work.section].g_weight_decay_f32;
      const float g_descent = sections[work.section].g_descent;
      const i32 length = i32(chunk.length);
      const u64 p_b_grad = address_of(global<float>(ctx.step.pointers, u64(tensor_index) * 2 + 0) + chunk.begin);
      const u64 p_b_weight = address_of(global<float>(ctx.step.pointers, u64(tensor_index) * 2 + 1) + chunk.begin);
      const i32 skew = skew_of<float, 4>(p_b_weight);
      const u32 room_b_grad = room_of<float, 4>(p_b_grad, skew, length);
      const u32 room_b_weight = room_of<float, 4>(p_b_weight, skew, length);
      const i32 stride = i32(work.workers) * 4;
#pragma unroll 1
      for (i32 first = i32(work.worker) * 4 - skew; first < length; first += 2 * stride) {
        u32 in_b_grad[8];
        load<Plain, float, 4, 2>(in_b_grad, p_b_grad, room_b_grad, first, stride, length);
        u32 in_b_weight[8];
        load<Plain, float, 4, 2>(in_b_weight, p_b_weight, room_b_weight, first, stride, length);
        u32 out_b_weight[8];
#pragma unroll
        for (i32 e = 0; e < 8; ++e) {
          const float e_grad = get<float>(in_b_grad, e);  // %grad = load @grad : [f32]
          const float e_g_clipped = e_grad * g_clip_coef;  // %g_clipped = mul %grad, %clip_coef : [f32]
          const float e_w = get<float>(in_b_weight, e);  // %w = load @weight : [f32]
          const float e_g_decayed = __fmaf_rn(e_w, g_weight_decay_f32, e_g_clipped);  // %g_decayed = fma %w, %weight_decay_f32, %g_clipped : [f32]
          const float e_g_l2 = g_no_decay ? e_g_clipped : e_g_decayed;  // %g_l2 = select %no_decay, %g_clipped, %g_decayed : [f32]
          const float e_w_new = __fmaf_rn(e_g_l2, g_descent, e_w);  // %w_new = fma %g_l2, %descent, %w : [f32]
          put<float>(out_b_weight, e, bits_of(e_w_new));  // store @weight, %w_new if %good
        }
        store<Plain, float, 4, 2>(out_b_weight, p_b_weight, room_b_weight, first, stride, length);
      }
    }
  }
  if (last_to_arrive(ctx.sync->finished)) {  // nobody reads a state any more
    const bool s_found_inf = step_1.s_found_inf != 0;
    const bool s_norm_overflow = step_1.s_norm_overflow != 0;
    const bool s_bad = step_1.s_bad != 0;
#pragma unroll 1
    for (u32 group = threadIdx.x; group < ctx.step.group_count; group += kThreads) {
      const u64* const group_args = group_args_of(ctx, 0, group * 3);
      const double g_max_norm = arg<double>(group_args[2]);  // arg %max_norm : {f64} = 1
      const float g_sum = global<float>(ctx.step.results, 1)[group];  // %sum = reduce_add %g_square : {f32}
      const float g_norm = __fsqrt_rn(g_sum);  // %norm = sqrt %sum : {f32}
      const float g_norm_plus = g_norm + s_c_1e_06_f32;  // %norm_plus = add %norm, %c_1e_06_f32 : {f32}
      const float g_inv_norm = 1.0f / g_norm_plus;  // %inv_norm = rcp %norm_plus : {f32}
      const float g_max_norm_f32 = float(g_max_norm);  // %max_norm_f32 = cast %max_norm : {f32}
      const float g_clip_ratio = g_inv_norm * g_max_norm_f32;  // %clip_ratio = mul %inv_norm, %max_norm_f32 : {f32}
      const float g_clip_coef = minimum(g_clip_ratio, s_c_1_f32);  // %clip_coef = min %clip_ratio, %c_1_f32 : {f32}
      const float g_coef_used = s_bad ? s_c_0_f32 : g_clip_coef;  // %coef_used = select %bad, %c_0_f32, %clip_coef : {f32}
      global<float>(ctx.step.states, 1)[group] = g_norm;  // write @grad_norm, %norm
      global<float>(ctx.step.states, 2)[group] = g_coef_used;  // write @clip_coef, %coef_used
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      global<bool>(ctx.step.states, 0)[0] = s_found_inf;  // write @found_inf, %found_inf
      global<bool>(ctx.step.states, 3)[0] = s_norm_overflow;  // write @norm_overflow, %norm_overflow
      global<bool>(ctx.step.states, 4)[0] = s_bad;  // write @skipped, %bad
      const u32 number = count_step(ctx);
      if (ctx.reports != nullptr) {
        u64* const record = ctx.reports + u64(number % ctx.report_capacity) * (4 + ctx.step.group_count + ctx.step.group_count);
        withdraw(record);
        record[1] = raw_of(global<bool>(ctx.step.states, 0)[0]);  // report @found_inf
        record[2] = raw_of(global<bool>(ctx.step.states, 3)[0]);  // report @norm_overflow
        record[3] = raw_of(global<bool>(ctx.step.states, 4)[0]);  // report @skipped
#pragma unroll 1
        for (u32 member = 0; member < ctx.step.group_count; ++member) {  // report @grad_norm
          record[4 + member] = raw_of(global<float>(ctx.step.states, 1)[member]);
        }
#pragma unroll 1
        for (u32 member = 0; member < ctx.step.group_count; ++member) {  // report @clip_coef
          record[4 + ctx.step.group_count + member] = raw_of(global<float>(ctx.step.states, 2)[member]);
        }
        publish(record, number);
      }
    }
  }
}

}  // namespace stepfuse
