// step @sgd, form fused: generated, self-contained CUDA C++.
namespace stepfuse {
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
}
// … abi.hpp …
namespace stepfuse {
// … prelude.cuh …

struct Chunk0 {
  u32 g_no_decay;
  float g_weight_decay_f32;
  float g_descent;
};

extern "C" __global__ void __launch_bounds__(kThreads, 3)
sf_sgd(const __grid_constant__ abi::DeviceContext ctx) {
  const double s_c_0_f64 = 0x0p+0;  // %c_0_f64 = const 0 : f64
  {  // phase update
    const u32 units = unit_count(ctx);
    __shared__ Chunk0 sections[1 + kWarps];
    u32 seen = kNone;  // the tensor whose values stand in section 0
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
        continue;
      }
      if (work.packed || tensor_index != seen) {
        synchronize(work.packed);  // nobody reads the last tensor's values any more
        if (work.worker == 0) {
          const u32 group = tensor.group;
          const u64* const group_args = group_args_of(ctx, 0, group * 2);
          const double g_lr = arg<double>(group_args[0]);  // arg %lr : {f64} = 0.001
          const double g_weight_decay = arg<double>(group_args[1]);  // arg %weight_decay : {f64} = 0
          const bool g_no_decay = g_weight_decay == s_c_0_f64;  // %no_decay = eq %weight_decay, %c_0_f64 : {bool}
          const float g_weight_decay_f32 = float(g_weight_decay);  // %weight_decay_f32 = cast %weight_decay : {f32}
          const float g_lr_f32 = float(g_lr);  // %lr_f32 = cast %lr : {f32}
          const float g_descent = -g_lr_f32;  // %descent = neg %lr_f32 : {f32}
          sections[work.section].g_no_decay = g_no_decay;
          sections[work.section].g_weight_decay_f32 = g_weight_decay_f32;
          sections[work.section].g_descent = g_descent;
        }
        synchronize(work.packed);
        seen = work.packed ? kNone : tensor_index;
      }
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
          const float e_w = get<float>(in_b_weight, e);  // %w = load @weight : [f32]
          const float e_g_decayed = __fmaf_rn(e_w, g_weight_decay_f32, e_grad);  // %g_decayed = fma %w, %weight_decay_f32, %grad : [f32]
          const float e_g_l2 = g_no_decay ? e_grad : e_g_decayed;  // %g_l2 = select %no_decay, %grad, %g_decayed : [f32]
          const float e_w_new = __fmaf_rn(e_g_l2, g_descent, e_w);  // %w_new = fma %g_l2, %descent, %w : [f32]
          put<float>(out_b_weight, e, bits_of(e_w_new));  // store @weight, %w_new
        }
        store<Plain, float, 4, 2>(out_b_weight, p_b_weight, room_b_weight, first, stride, length);
      }
    }
  }
  if (last_to_arrive(ctx.sync->finished)) {  // nobody reads a state any more
    if (threadIdx.x == 0) {
      const u32 number = count_step(ctx);
      if (ctx.reports != nullptr) {
        u64* const record = ctx.reports + u64(number % ctx.report_capacity) * 1;
        withdraw(record);
        publish(record, number);
      }
    }
  }
}

}  // namespace stepfuse
