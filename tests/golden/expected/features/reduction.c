// step @reduction, form fused: generated, self-contained C11.
enum { SF_LANES = 2048, SF_PIECE = 16384 };
// … prelude.h …

SF_REDUCTION(sf_fold_add_f32, float, 0.0f, sf_add_f32)

void sf_phase_0(const sf_context* ctx, uint32_t begin, uint32_t end) {
  for (uint32_t c = begin; c < end; ++c) {
    const sf_chunk* const chunk = ctx->chunks + c;
    const uint32_t tensor_index = chunk->tensor;
    const sf_tensor* const tensor = ctx->tensors + tensor_index;
    if ((tensor->flags & SF_PRESENT) == 0) {
      ((float*)ctx->slots[0])[c] = 0.0f;
      continue;
    }
    float* const b_grad =
        (float*)ctx->pointers[(uint64_t)tensor_index * 2 + 0] + chunk->begin;  // @grad, f32
    float lanes_s_sum[SF_LANES];
    sf_fold_add_f32_clear(lanes_s_sum);
    for (uint32_t i = 0; i < chunk->length; ++i) {
      const float e_g = b_grad[i];       // %g = load @grad : [f32]
      const float e_square = e_g * e_g;  // %square = mul %g, %g : [f32]
      const uint64_t lane = (tensor->offset + chunk->begin + i) % SF_LANES;
      lanes_s_sum[lane] =
          sf_add_f32(lanes_s_sum[lane], e_square);  // %sum = reduce_add %square : f32
    }
    ((float*)ctx->slots[0])[c] = sf_fold_add_f32_lanes(lanes_s_sum);
  }
}

void sf_phase_1(const sf_context* ctx, uint32_t begin, uint32_t end) {
  const float s_sum = ((float*)ctx->results[0])[0];  // %sum = reduce_add %square : f32
  const bool s_good = isfinite(s_sum) != 0;          // %good = isfinite %sum : bool
  if (!s_good) return;
  for (uint32_t c = begin; c < end; ++c) {
    const sf_chunk* const chunk = ctx->chunks + c;
    const uint32_t tensor_index = chunk->tensor;
    const sf_tensor* const tensor = ctx->tensors + tensor_index;
    if ((tensor->flags & SF_PRESENT) == 0) {
      continue;
    }
    float* const b_weight =
        (float*)ctx->pointers[(uint64_t)tensor_index * 2 + 1] + chunk->begin;  // @weight, f32
    for (uint32_t i = 0; i < chunk->length; ++i) {
      const float e_w = b_weight[i];   // %w = load @weight : [f32]
      const float e_w1 = e_w / s_sum;  // %w1 = div %w, %sum : [f32]
      b_weight[i] = e_w1;              // store @weight, %w1 if %good
    }
  }
}

void sf_finish(const sf_context* ctx) {}

void sf_run(const sf_context* ctx) {
  sf_phase_0(ctx, 0, ctx->chunk_count);  // reduce
  sf_fold_add_f32(ctx->parts + 3, ctx->slots[0],
                  ctx->results[0]);      // %sum = reduce_add %square : f32
  sf_phase_1(ctx, 0, ctx->chunk_count);  // update
  sf_finish(ctx);
}
