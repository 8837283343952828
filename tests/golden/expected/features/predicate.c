// step @predicate, form fused: generated, self-contained C11.
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
    int32_t* const b_mask =
        (int32_t*)ctx->pointers[(uint64_t)tensor_index * 2 + 0] + chunk->begin;  // @mask, i32
    float* const b_weight =
        (float*)ctx->pointers[(uint64_t)tensor_index * 2 + 1] + chunk->begin;  // @weight, f32
    for (uint32_t i = 0; i < chunk->length; ++i) {
      const int32_t e_mask = b_mask[i];  // %mask = load @mask : [i32]
      const bool e_off = e_mask == 0;    // %off = eq %mask, %none : [bool]
      if (e_off) b_weight[i] = 0.0f;     // store @weight, %zero if %off
    }
  }
}

void sf_finish(const sf_context* ctx) {}

void sf_run(const sf_context* ctx) {
  sf_phase_0(ctx, 0, ctx->chunk_count);  // update
  sf_finish(ctx);
}
