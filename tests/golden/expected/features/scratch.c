// step @scratch, form unfused: generated, self-contained C11.
enum { SF_LANES = 2048, SF_PIECE = 16384 };
// … prelude.h …

SF_REDUCTION(sf_fold_add_f32, float, 0.0f, sf_add_f32)

void sf_phase_0(const sf_context* ctx, uint32_t begin, uint32_t end) {
  const float s_scale = sf_arg_f32(ctx->step_args + 0);  // arg %scale : f32 = 1
  for (uint32_t c = begin; c < end; ++c) {
    const sf_chunk* const chunk = ctx->chunks + c;
    const uint32_t tensor_index = chunk->tensor;
    const sf_tensor* const tensor = ctx->tensors + tensor_index;
    if ((tensor->flags & SF_PRESENT) == 0) {
      continue;
    }
    uint16_t* const b_grad =
        (uint16_t*)ctx->pointers[(uint64_t)tensor_index * 2 + 0] + chunk->begin;  // @grad, f16
    float* const x_0 = (float*)((char*)ctx->scratch[0] + tensor->scratch_base * 4) +
                       chunk->begin;  // scratch 0, f32
    for (uint32_t i = 0; i < chunk->length; ++i) {
      const uint16_t e_g16 = b_grad[i];          // %g16 = load @grad : [f16]
      const float e_g = sf_f32_from_f16(e_g16);  // %g = cast %g16 : [f32]
      const float e_d = e_g * s_scale;           // %d = mul %g, %scale : [f32]
      x_0[i] = e_d;                              // keep %d
    }
  }
}

void sf_phase_1(const sf_context* ctx, uint32_t begin, uint32_t end) {
  for (uint32_t c = begin; c < end; ++c) {
    const sf_chunk* const chunk = ctx->chunks + c;
    const uint32_t tensor_index = chunk->tensor;
    const sf_tensor* const tensor = ctx->tensors + tensor_index;
    if ((tensor->flags & SF_PRESENT) == 0) {
      ((float*)ctx->slots[0])[c] = 0.0f;
      continue;
    }
    float* const x_0 = (float*)((char*)ctx->scratch[0] + tensor->scratch_base * 4) +
                       chunk->begin;  // scratch 0, f32
    float lanes_s_sum[SF_LANES];
    sf_fold_add_f32_clear(lanes_s_sum);
    for (uint32_t i = 0; i < chunk->length; ++i) {
      const float e_d = x_0[i];  // %d = mul %g, %scale : [f32]
      const uint64_t lane = (tensor->offset + chunk->begin + i) % SF_LANES;
      lanes_s_sum[lane] = sf_add_f32(lanes_s_sum[lane], e_d);  // %sum = reduce_add %d : f32
    }
    ((float*)ctx->slots[0])[c] = sf_fold_add_f32_lanes(lanes_s_sum);
  }
}

void sf_phase_2(const sf_context* ctx, uint32_t begin, uint32_t end) {
  const float s_sum = ((float*)ctx->results[0])[0];  // %sum = reduce_add %d : f32
  for (uint32_t c = begin; c < end; ++c) {
    const sf_chunk* const chunk = ctx->chunks + c;
    const uint32_t tensor_index = chunk->tensor;
    const sf_tensor* const tensor = ctx->tensors + tensor_index;
    if ((tensor->flags & SF_PRESENT) == 0) {
      continue;
    }
    uint16_t* const b_weight =
        (uint16_t*)ctx->pointers[(uint64_t)tensor_index * 2 + 1] + chunk->begin;  // @weight, f16
    float* const x_0 = (float*)((char*)ctx->scratch[0] + tensor->scratch_base * 4) +
                       chunk->begin;  // scratch 0, f32
    for (uint32_t i = 0; i < chunk->length; ++i) {
      const float e_d = x_0[i];                   // %d = mul %g, %scale : [f32]
      const float e_c = e_d * s_sum;              // %c = mul %d, %sum : [f32]
      const uint16_t e_w = sf_f16_from_f32(e_c);  // %w = cast %c : [f16]
      b_weight[i] = e_w;                          // store @weight, %w
    }
  }
}

void sf_finish(const sf_context* ctx) {}

void sf_run(const sf_context* ctx) {
  sf_phase_0(ctx, 0, ctx->chunk_count);                             // unscale
  sf_phase_1(ctx, 0, ctx->chunk_count);                             // norm
  sf_fold_add_f32(ctx->parts + 3, ctx->slots[0], ctx->results[0]);  // %sum = reduce_add %d : f32
  sf_phase_2(ctx, 0, ctx->chunk_count);                             // update
  sf_finish(ctx);
}
