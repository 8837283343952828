// step @otherwise, form fused: generated, self-contained C11.
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
    const bool t_bad = ((uint8_t*)ctx->states[0])[tensor_index];  // %bad = read @bad : <bool>
    const bool t_good = !t_bad;                                   // %good = not %bad : <bool>
    if (t_good) {
      float* const b_grad =
          (float*)ctx->pointers[(uint64_t)tensor_index * 2 + 0] + chunk->begin;  // @grad, f32
      float* const b_weight =
          (float*)ctx->pointers[(uint64_t)tensor_index * 2 + 1] + chunk->begin;  // @weight, f32
      for (uint32_t i = 0; i < chunk->length; ++i) {
        const float e_g = b_grad[i];    // %g = load @grad : [f32]
        const float e_w = b_weight[i];  // %w = load @weight : [f32]
        const float e_w1 = e_w - e_g;   // %w1 = sub %w, %g : [f32]
        b_weight[i] = e_w1;             // store @weight, %w1 if %good
        b_grad[i] = 0.0f;               // store @grad, %zero
      }
    } else {
      float* const b_grad =
          (float*)ctx->pointers[(uint64_t)tensor_index * 2 + 0] + chunk->begin;  // @grad, f32
      for (uint32_t i = 0; i < chunk->length; ++i) {
        b_grad[i] = 0.0f;  // store @grad, %zero
      }
    }
  }
}

void sf_finish(const sf_context* ctx) {}

void sf_run(const sf_context* ctx) {
  sf_phase_0(ctx, 0, ctx->chunk_count);  // update
  sf_finish(ctx);
}
