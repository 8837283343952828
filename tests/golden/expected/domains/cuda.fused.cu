// step @domains, form fused: generated, self-contained CUDA C++.
namespace stepfuse {
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
}
// … abi.hpp …
namespace stepfuse {
// … prelude.cuh …

struct Step1 {
  float s_limit;
  u32 s_bad;
  u32 s_good;
};
struct Chunk1 {
  u32 t_calm;
  float g_per;
};
struct FinishStep {
  double s_total1;
};

extern "C" __global__ void __launch_bounds__(kThreads, 3)
sf_domains(const __grid_constant__ abi::DeviceContext ctx) {
  __shared__ Lanes lanes;
  const i32 s_none = 0;  // %none = const 0 : i32
  const i64 s_one = 1ll;  // %one = const 1 : i64
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
          global<float>(ctx.step.slots, 0)[chunk.slot] = Add::identity<float>();
          global<float>(ctx.step.slots, 1)[chunk.slot] = Max::identity<float>();
          global<bool>(ctx.step.slots, 2)[chunk.slot] = false;
        }
        continue;
      }
      const i32 length = i32(chunk.length);
      const u32 first_lane = work.packed ? 0 : u32(tensor.offset + chunk.begin) % 2048;
      LanePlace place = {0, work.workers * 4};
      float acc_g_sum[8];
#pragma unroll
      for (i32 e = 0; e < 8; ++e) acc_g_sum[e] = Add::identity<float>();
      float acc_t_tensor_max[8];
#pragma unroll
      for (i32 e = 0; e < 8; ++e) acc_t_tensor_max[e] = Max::identity<float>();
      bool acc_s_bad = false;
      switch (chunk.signature) {
        case 0: {
          const u64 p_b_grad = address_of(global<f16>(ctx.step.pointers, u64(tensor_index) * 4 + 0) + chunk.begin);
          const i32 skew = skew_of<f16, 8>(p_b_grad);
          const u32 room_b_grad = room_of<f16, 8>(p_b_grad, skew, length);
          const i32 stride = i32(work.workers) * 8;
          place = lane_place<8>(skew, work.worker, work.workers, first_lane);
#pragma unroll 1
          for (i32 first = i32(work.worker) * 8 - skew; first < length; first += 2 * stride) {
            u32 in_b_grad[8];
            load<Plain, f16, 8, 2>(in_b_grad, p_b_grad, room_b_grad, first, stride, length);
#pragma unroll
            for (i32 e = 0; e < 16; ++e) {
              const i32 at = first + e / 8 * stride + e % 8;
              const f16 e_raw = get<f16>(in_b_grad, e);  // %raw = load @grad : [@grad]
              const float e_g = f32_from(e_raw);  // %g = cast %raw : [f32]
              const float e_sq = e_g * e_g;  // %sq = mul %g, %g : [f32]
              const float e_size = absolute(e_g);  // %size = abs %g : [f32]
              const bool e_finite = is_finite(e_g);  // %finite = isfinite %g : [bool]
              const bool e_bad_element = !e_finite;  // %bad_element = not %finite : [bool]
              acc_g_sum[e % 8] = u32(at) < u32(length) ? Add::combine(acc_g_sum[e % 8], e_sq) : acc_g_sum[e % 8];  // %sum = reduce_add %sq : {f32}
              acc_t_tensor_max[e % 8] = u32(at) < u32(length) ? Max::combine(acc_t_tensor_max[e % 8], e_size) : acc_t_tensor_max[e % 8];  // %tensor_max = reduce_max %size : <f32>
              acc_s_bad |= e_bad_element & (u32(at) < u32(length));  // %bad = reduce_any %bad_element : bool
            }
          }
          break;
        }
        case 1: {
          const u64 p_b_grad = address_of(global<float>(ctx.step.pointers, u64(tensor_index) * 4 + 0) + chunk.begin);
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
              const float e_raw = get<float>(in_b_grad, e);  // %raw = load @grad : [@grad]
              const float e_g = e_raw;  // %g = cast %raw : [f32]
              const float e_sq = e_g * e_g;  // %sq = mul %g, %g : [f32]
              const float e_size = absolute(e_g);  // %size = abs %g : [f32]
              const bool e_finite = is_finite(e_g);  // %finite = isfinite %g : [bool]
              const bool e_bad_element = !e_finite;  // %bad_element = not %finite : [bool]
              acc_g_sum[e % 8] = u32(at) < u32(length) ? Add::combine(acc_g_sum[e % 8], e_sq) : acc_g_sum[e % 8];  // %sum = reduce_add %sq : {f32}
              acc_t_tensor_max[e % 8] = u32(at) < u32(length) ? Max::combine(acc_t_tensor_max[e % 8], e_size) : acc_t_tensor_max[e % 8];  // %tensor_max = reduce_max %size : <f32>
              acc_s_bad |= e_bad_element & (u32(at) < u32(length));  // %bad = reduce_any %bad_element : bool
            }
          }
          break;
        }
      }
      fold_chunk<Add>(acc_g_sum, place, work.packed, lanes, &global<float>(ctx.step.slots, 0)[chunk.slot]);  // %sum = reduce_add %sq : {f32}
      fold_chunk<Max>(acc_t_tensor_max, place, work.packed, lanes, &global<float>(ctx.step.slots, 1)[chunk.slot]);  // %tensor_max = reduce_max %size : <f32>
      any_chunk(acc_s_bad, work.packed, &global<bool>(ctx.step.slots, 2)[chunk.slot]);  // %bad = reduce_any %bad_element : bool
    }
  }
  {  // grid barrier
    u32 before = 0;
    if (threadIdx.x == 0) before = load_acquire(ctx.sync->generation);
    if (last_to_arrive(ctx.sync->arrived)) {
      fold_parts<Add>(ctx.step.parts[4], global<float>(ctx.step.slots, 0), global<float>(ctx.step.results, 0), lanes);  // %sum = reduce_add %sq : {f32}
      fold_parts<Max>(ctx.step.parts[5], global<float>(ctx.step.slots, 1), global<float>(ctx.step.results, 1), lanes);  // %tensor_max = reduce_max %size : <f32>
      any_list(global<bool>(ctx.step.slots, 2), nullptr, ctx.step.chunk_count, global<bool>(ctx.step.results, 2));  // %bad = reduce_any %bad_element : bool
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
      const u64* const step_args = step_args_of(ctx);
      const float s_limit = arg<float>(step_args[0]);  // arg %limit : f32 = 10
      const bool s_bad = global<bool>(ctx.step.results, 2)[0];  // %bad = reduce_any %bad_element : bool
      const bool s_good = !s_bad;  // %good = not %bad : bool
      step_1.s_limit = s_limit;
      step_1.s_bad = s_bad;
      step_1.s_good = s_good;
    }
    __syncthreads();
    const float s_limit = step_1.s_limit;
    const bool s_good = step_1.s_good != 0;
    const u32 units = unit_count(ctx);
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
          const u64* const group_args = group_args_of(ctx, 1, group * 1);
          const double g_lr = arg<double>(group_args[0]);  // arg %lr : {f64} = 0.01
          const float g_sum = global<float>(ctx.step.results, 0)[group];  // %sum = reduce_add %sq : {f32}
          const float g_group_norm = __fsqrt_rn(g_sum);  // %group_norm = sqrt %sum : {f32}
          const float g_scale = global<float>(ctx.step.states, 1)[group];  // %scale = read @lr_scale : {f32}
          const float g_lr32 = float(g_lr);  // %lr32 = cast %lr : {f32}
          const float g_rate = g_lr32 * g_scale;  // %rate = mul %lr32, %scale : {f32}
          const float g_per = g_rate / g_group_norm;  // %per = div %rate, %group_norm : {f32}
          const float t_tensor_max = global<float>(ctx.step.results, 1)[tensor_index];  // %tensor_max = reduce_max %size : <f32>
          const bool t_calm = t_tensor_max < s_limit;  // %calm = lt %tensor_max, %limit : <bool>
          sections[work.section].t_calm = t_calm;
          sections[work.section].g_per = g_per;
        }
        synchronize(work.packed);
        seen = work.packed ? kNone : tensor_index;
      }
      const bool t_calm = sections[work.section].t_calm != 0;
      const float g_per = sections[work.section].g_per;
      const i32 length = i32(chunk.length);
      if (t_calm) {
        switch (chunk.signature) {
          case 0: {
            const u64 p_b_grad = address_of(global<f16>(ctx.step.pointers, u64(tensor_index) * 4 + 0) + chunk.begin);
            const u64 p_b_weight = address_of(global<float>(ctx.step.pointers, u64(tensor_index) * 4 + 1) + chunk.begin);
            const u64 p_b_copy = address_of(global<bf16>(ctx.step.pointers, u64(tensor_index) * 4 + 2) + chunk.begin);
            const u64 p_b_mask = address_of(global<i32>(ctx.step.pointers, u64(tensor_index) * 4 + 3) + chunk.begin);
            const i32 skew = skew_of<float, 4>(p_b_weight);
            const u32 room_b_grad = room_of<f16, 4>(p_b_grad, skew, length);
            const u32 room_b_weight = room_of<float, 4>(p_b_weight, skew, length);
            const u32 room_b_copy = room_of<bf16, 4>(p_b_copy, skew, length);
            const u32 room_b_mask = room_of<i32, 4>(p_b_mask, skew, length);
            const i32 stride = i32(work.workers) * 4;
#pragma unroll 1
            for (i32 first = i32(work.worker) * 4 - skew; first < length; first += 1 * stride) {
              u32 in_b_grad[2];
              load<Plain, f16, 4, 1>(in_b_grad, p_b_grad, room_b_grad, first, stride, length);
              u32 in_b_weight[4];
              load<Plain, float, 4, 1>(in_b_weight, p_b_weight, room_b_weight, first, stride, length);
              u32 in_b_mask[4];
              load<Plain, i32, 4, 1>(in_b_mask, p_b_mask, room_b_mask, first, stride, length);
              u32 out_b_weight[4];
              u32 out_b_copy[2];
              u32 mask_e_store = 0;
#pragma unroll
              for (i32 e = 0; e < 4; ++e) {
                const f16 e_raw = get<f16>(in_b_grad, e);  // %raw = load @grad : [@grad]
                const float e_g = f32_from(e_raw);  // %g = cast %raw : [f32]
                const i32 e_mask = get<i32>(in_b_mask, e);  // %mask = load @mask : [i32]
                const bool e_off = e_mask == s_none;  // %off = eq %mask, %none : [bool]
                const bool e_on = !e_off;  // %on = not %off : [bool]
                const bool e_chosen = e_on & t_calm;  // %chosen = and %on, %calm : [bool]
                const bool e_store = e_chosen & s_good;  // %store = and %chosen, %good : [bool]
                const float e_d = e_g * g_per;  // %d = mul %g, %per : [f32]
                const float e_w0 = get<float>(in_b_weight, e);  // %w0 = load @weight : [f32]
                const float e_w1 = e_w0 - e_d;  // %w1 = sub %w0, %d : [f32]
                const bf16 e_w16 = bf16_from(e_w1);  // %w16 = cast %w1 : [bf16]
                put<float>(out_b_weight, e, bits_of(e_w1));  // store @weight, %w1 if %store
                put<bf16>(out_b_copy, e, bits_of(e_w16));  // store @copy, %w16 if %calm
                mask_e_store |= u32(e_store) << e;
              }
              store<Plain, float, 4, 1>(out_b_weight, p_b_weight, room_b_weight, first, stride, length, mask_e_store);
              store<Plain, bf16, 4, 1>(out_b_copy, p_b_copy, room_b_copy, first, stride, length);
            }
            break;
          }
          case 1: {
            const u64 p_b_grad = address_of(global<float>(ctx.step.pointers, u64(tensor_index) * 4 + 0) + chunk.begin);
            const u64 p_b_weight = address_of(global<float>(ctx.step.pointers, u64(tensor_index) * 4 + 1) + chunk.begin);
            const u64 p_b_copy = address_of(global<bf16>(ctx.step.pointers, u64(tensor_index) * 4 + 2) + chunk.begin);
            const u64 p_b_mask = address_of(global<i32>(ctx.step.pointers, u64(tensor_index) * 4 + 3) + chunk.begin);
            const i32 skew = skew_of<float, 4>(p_b_weight);
            const u32 room_b_grad = room_of<float, 4>(p_b_grad, skew, length);
            const u32 room_b_weight = room_of<float, 4>(p_b_weight, skew, length);
            const u32 room_b_copy = room_of<bf16, 4>(p_b_copy, skew, length);
            const u32 room_b_mask = room_of<i32, 4>(p_b_mask, skew, length);
            const i32 stride = i32(work.workers) * 4;
#pragma unroll 1
            for (i32 first = i32(work.worker) * 4 - skew; first < length; first += 1 * stride) {
              u32 in_b_grad[4];
              load<Plain, float, 4, 1>(in_b_grad, p_b_grad, room_b_grad, first, stride, length);
              u32 in_b_weight[4];
              load<Plain, float, 4, 1>(in_b_weight, p_b_weight, room_b_weight, first, stride, length);
              u32 in_b_mask[4];
              load<Plain, i32, 4, 1>(in_b_mask, p_b_mask, room_b_mask, first, stride, length);
              u32 out_b_weight[4];
              u32 out_b_copy[2];
              u32 mask_e_store = 0;
#pragma unroll
              for (i32 e = 0; e < 4; ++e) {
                const float e_raw = get<float>(in_b_grad, e);  // %raw = load @grad : [@grad]
                const float e_g = e_raw;  // %g = cast %raw : [f32]
                const i32 e_mask = get<i32>(in_b_mask, e);  // %mask = load @mask : [i32]
                const bool e_off = e_mask == s_none;  // %off = eq %mask, %none : [bool]
                const bool e_on = !e_off;  // %on = not %off : [bool]
                const bool e_chosen = e_on & t_calm;  // %chosen = and %on, %calm : [bool]
                const bool e_store = e_chosen & s_good;  // %store = and %chosen, %good : [bool]
                const float e_d = e_g * g_per;  // %d = mul %g, %per : [f32]
                const float e_w0 = get<float>(in_b_weight, e);  // %w0 = load @weight : [f32]
                const float e_w1 = e_w0 - e_d;  // %w1 = sub %w0, %d : [f32]
                const bf16 e_w16 = bf16_from(e_w1);  // %w16 = cast %w1 : [bf16]
                put<float>(out_b_weight, e, bits_of(e_w1));  // store @weight, %w1 if %store
                put<bf16>(out_b_copy, e, bits_of(e_w16));  // store @copy, %w16 if %calm
                mask_e_store |= u32(e_store) << e;
              }
              store<Plain, float, 4, 1>(out_b_weight, p_b_weight, room_b_weight, first, stride, length, mask_e_store);
              store<Plain, bf16, 4, 1>(out_b_copy, p_b_copy, room_b_copy, first, stride, length);
            }
            break;
          }
        }
      } else {
        switch (chunk.signature) {
          case 0: {
            const u64 p_b_grad = address_of(global<f16>(ctx.step.pointers, u64(tensor_index) * 4 + 0) + chunk.begin);
            const u64 p_b_weight = address_of(global<float>(ctx.step.pointers, u64(tensor_index) * 4 + 1) + chunk.begin);
            const u64 p_b_mask = address_of(global<i32>(ctx.step.pointers, u64(tensor_index) * 4 + 3) + chunk.begin);
            const i32 skew = skew_of<float, 4>(p_b_weight);
            const u32 room_b_grad = room_of<f16, 4>(p_b_grad, skew, length);
            const u32 room_b_weight = room_of<float, 4>(p_b_weight, skew, length);
            const u32 room_b_mask = room_of<i32, 4>(p_b_mask, skew, length);
            const i32 stride = i32(work.workers) * 4;
#pragma unroll 1
            for (i32 first = i32(work.worker) * 4 - skew; first < length; first += 1 * stride) {
              u32 in_b_grad[2];
              load<Plain, f16, 4, 1>(in_b_grad, p_b_grad, room_b_grad, first, stride, length);
              u32 in_b_weight[4];
              load<Plain, float, 4, 1>(in_b_weight, p_b_weight, room_b_weight, first, stride, length);
              u32 in_b_mask[4];
              load<Plain, i32, 4, 1>(in_b_mask, p_b_mask, room_b_mask, first, stride, length);
              u32 out_b_weight[4];
              u32 mask_e_store = 0;
#pragma unroll
              for (i32 e = 0; e < 4; ++e) {
                const f16 e_raw = get<f16>(in_b_grad, e);  // %raw = load @grad : [@grad]
                const float e_g = f32_from(e_raw);  // %g = cast %raw : [f32]
                const i32 e_mask = get<i32>(in_b_mask, e);  // %mask = load @mask : [i32]
                const bool e_off = e_mask == s_none;  // %off = eq %mask, %none : [bool]
                const bool e_on = !e_off;  // %on = not %off : [bool]
                const bool e_chosen = e_on & t_calm;  // %chosen = and %on, %calm : [bool]
                const bool e_store = e_chosen & s_good;  // %store = and %chosen, %good : [bool]
                const float e_d = e_g * g_per;  // %d = mul %g, %per : [f32]
                const float e_w0 = get<float>(in_b_weight, e);  // %w0 = load @weight : [f32]
                const float e_w1 = e_w0 - e_d;  // %w1 = sub %w0, %d : [f32]
                put<float>(out_b_weight, e, bits_of(e_w1));  // store @weight, %w1 if %store
                mask_e_store |= u32(e_store) << e;
              }
              store<Plain, float, 4, 1>(out_b_weight, p_b_weight, room_b_weight, first, stride, length, mask_e_store);
            }
            break;
          }
          case 1: {
            const u64 p_b_grad = address_of(global<float>(ctx.step.pointers, u64(tensor_index) * 4 + 0) + chunk.begin);
            const u64 p_b_weight = address_of(global<float>(ctx.step.pointers, u64(tensor_index) * 4 + 1) + chunk.begin);
            const u64 p_b_mask = address_of(global<i32>(ctx.step.pointers, u64(tensor_index) * 4 + 3) + chunk.begin);
            const i32 skew = skew_of<float, 4>(p_b_weight);
            const u32 room_b_grad = room_of<float, 4>(p_b_grad, skew, length);
            const u32 room_b_weight = room_of<float, 4>(p_b_weight, skew, length);
            const u32 room_b_mask = room_of<i32, 4>(p_b_mask, skew, length);
            const i32 stride = i32(work.workers) * 4;
#pragma unroll 1
            for (i32 first = i32(work.worker) * 4 - skew; first < length; first += 1 * stride) {
              u32 in_b_grad[4];
              load<Plain, float, 4, 1>(in_b_grad, p_b_grad, room_b_grad, first, stride, length);
              u32 in_b_weight[4];
              load<Plain, float, 4, 1>(in_b_weight, p_b_weight, room_b_weight, first, stride, length);
              u32 in_b_mask[4];
              load<Plain, i32, 4, 1>(in_b_mask, p_b_mask, room_b_mask, first, stride, length);
              u32 out_b_weight[4];
              u32 mask_e_store = 0;
#pragma unroll
              for (i32 e = 0; e < 4; ++e) {
                const float e_raw = get<float>(in_b_grad, e);  // %raw = load @grad : [@grad]
                const float e_g = e_raw;  // %g = cast %raw : [f32]
                const i32 e_mask = get<i32>(in_b_mask, e);  // %mask = load @mask : [i32]
                const bool e_off = e_mask == s_none;  // %off = eq %mask, %none : [bool]
                const bool e_on = !e_off;  // %on = not %off : [bool]
                const bool e_chosen = e_on & t_calm;  // %chosen = and %on, %calm : [bool]
                const bool e_store = e_chosen & s_good;  // %store = and %chosen, %good : [bool]
                const float e_d = e_g * g_per;  // %d = mul %g, %per : [f32]
                const float e_w0 = get<float>(in_b_weight, e);  // %w0 = load @weight : [f32]
                const float e_w1 = e_w0 - e_d;  // %w1 = sub %w0, %d : [f32]
                put<float>(out_b_weight, e, bits_of(e_w1));  // store @weight, %w1 if %store
                mask_e_store |= u32(e_store) << e;
              }
              store<Plain, float, 4, 1>(out_b_weight, p_b_weight, room_b_weight, first, stride, length, mask_e_store);
            }
            break;
          }
        }
      }
    }
  }
  if (last_to_arrive(ctx.sync->finished)) {  // nobody reads a state any more
    const float s_limit = step_1.s_limit;
    const bool s_bad = step_1.s_bad != 0;
    const bool s_good = step_1.s_good != 0;
    __shared__ FinishStep own;
    if (threadIdx.x == 0) {
      const double s_total0 = global<double>(ctx.step.states, 2)[0];  // %total0 = read @total : f64
      const double s_seen = double(s_bad);  // %seen = cast %bad : f64
      const double s_total1 = s_total0 + s_seen;  // %total1 = add %total0, %seen : f64
      own.s_total1 = s_total1;
    }
    __syncthreads();
    const double s_total1 = own.s_total1;
#pragma unroll 1
    for (u32 tensor_index = threadIdx.x; tensor_index < ctx.step.tensor_count; tensor_index += kThreads) {
      const abi::Tensor& tensor = ctx.step.tensors[tensor_index];
      if ((tensor.flags & abi::kPresent) == 0) continue;
      const float t_tensor_max = global<float>(ctx.step.results, 1)[tensor_index];  // %tensor_max = reduce_max %size : <f32>
      const bool t_calm = t_tensor_max < s_limit;  // %calm = lt %tensor_max, %limit : <bool>
      const i64 t_t0 = global<i64>(ctx.step.states, 0)[tensor_index];  // %t0 = read @count : <i64>
      const i64 t_t1 = add(t_t0, s_one);  // %t1 = add %t0, %one : <i64>
      if (s_good) global<i64>(ctx.step.states, 0)[tensor_index] = t_t1;  // write @count, %t1 if %good
      if (t_calm) global<float>(ctx.step.states, 4)[tensor_index] = t_tensor_max;  // write @tensor_max, %tensor_max if %calm
    }
    __syncthreads();
#pragma unroll 1
    for (u32 group = threadIdx.x; group < ctx.step.group_count; group += kThreads) {
      const u64* const group_args = group_args_of(ctx, 1, group * 1);
      const double g_lr = arg<double>(group_args[0]);  // arg %lr : {f64} = 0.01
      const float g_sum = global<float>(ctx.step.results, 0)[group];  // %sum = reduce_add %sq : {f32}
      const float g_group_norm = __fsqrt_rn(g_sum);  // %group_norm = sqrt %sum : {f32}
      const float g_scale = global<float>(ctx.step.states, 1)[group];  // %scale = read @lr_scale : {f32}
      const float g_lr32 = float(g_lr);  // %lr32 = cast %lr : {f32}
      const float g_rate = g_lr32 * g_scale;  // %rate = mul %lr32, %scale : {f32}
      if (s_good) global<float>(ctx.step.states, 1)[group] = g_rate;  // write @lr_scale, %rate if %good
      global<float>(ctx.step.states, 3)[group] = g_group_norm;  // write @group_norm, %group_norm
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      global<double>(ctx.step.states, 2)[0] = s_total1;  // write @total, %total1
      global<bool>(ctx.step.states, 5)[0] = s_bad;  // write @bad, %bad
      const u32 number = count_step(ctx);
      if (ctx.reports != nullptr) {
        u64* const record = ctx.reports + u64(number % ctx.report_capacity) * (2 + ctx.step.group_count + ctx.step.tensor_count);
        withdraw(record);
        record[1] = raw_of(global<bool>(ctx.step.states, 5)[0]);  // report @bad
#pragma unroll 1
        for (u32 member = 0; member < ctx.step.group_count; ++member) {  // report @group_norm
          record[2 + member] = raw_of(global<float>(ctx.step.states, 3)[member]);
        }
#pragma unroll 1
        for (u32 member = 0; member < ctx.step.tensor_count; ++member) {  // report @tensor_max
          record[2 + ctx.step.group_count + member] = raw_of(global<float>(ctx.step.states, 4)[member]);
        }
        publish(record, number);
      }
    }
  }
}

}  // namespace stepfuse
