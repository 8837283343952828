// step @update, form fused: generated, self-contained C11.
enum { SF_LANES = 2048, SF_PIECE = 16384 };
// … prelude.h …

void sf_phase_0(const sf_context* ctx, uint32_t begin, uint32_t end) {
  for (uint32_t c = begin; c < end; ++c) {
    const sf_chunk* const chunk = ctx->chunks + c;
    const uint32_t tensor_index = chunk->tensor;
    const sf_tensor* const tensor = ctx->tensors + tensor_index;
    if ((tensor->flags & SF_PRESENT) == 0) {
      continue;
    }
    const uint32_t group = tensor->group;
    const double g_lr =
        sf_arg_f64(ctx->group_args + (uint64_t)group * 1 + 0);  // arg %lr : {f64} = 0.1
    const float g_lr32 = (float)g_lr;                           // %lr32 = cast %lr : {f32}
    const float g_down = -g_lr32;                               // %down = neg %lr32 : {f32}
    uint16_t* const b_grad =
        (uint16_t*)ctx->pointers[(uint64_t)tensor_index * 2 + 0] + chunk->begin;  // @grad, f16
    float* const b_weight =
        (float*)ctx->pointers[(uint64_t)tensor_index * 2 + 1] + chunk->begin;  // @weight, f32
    for (uint32_t i = 0; i < chunk->length; ++i) {
      const uint16_t e_g16 = b_grad[i];           // %g16 = load @grad : [f16]
      const float e_g = sf_f32_from_f16(e_g16);   // %g = cast %g16 : [f32]
      const float e_w = b_weight[i];              // %w = load @weight : [f32]
      const float e_w1 = fmaf(e_g, g_down, e_w);  // %w1 = fma %g, %down, %w : [f32]
      b_weight[i] = e_w1;                         // store @weight, %w1
    }
  }
}

void sf_finish(const sf_context* ctx) {}

void sf_run(const sf_context* ctx) {
  sf_phase_0(ctx, 0, ctx->chunk_count);  // update
  sf_finish(ctx);
}
