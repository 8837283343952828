// step @rollup, form fused: generated, self-contained C11.
enum { SF_LANES = 2048, SF_PIECE = 16384 };
// … prelude.h …

SF_REDUCTION(sf_fold_add_f32, float, 0.0f, sf_add_f32)
SF_REDUCTION(sf_fold_max_f32, float, sf_float(0xff800000u), sf_max_f32)

void sf_rollup_0_0(const sf_context* ctx) {
  for (uint32_t tensor_index = 0; tensor_index < ctx->tensor_count; ++tensor_index) {
    const sf_tensor* const tensor = ctx->tensors + tensor_index;
    const float t_sum = ((float*)ctx->results[0])[tensor_index];  // %sum = reduce_add %g : <f32>
    const float t_size = fabsf(t_sum);                            // %size = abs %sum : <f32>
    ((float*)ctx->slots[1])[tensor_index] = t_size;  // %groups = reduce_add %size : {f32}
  }
}

void sf_rollup_0_1(const sf_context* ctx) {
  for (uint32_t group = 0; group < ctx->group_count; ++group) {
    const float g_groups = ((float*)ctx->results[1])[group];  // %groups = reduce_add %size : {f32}
    ((float*)ctx->slots[2])[group] = g_groups;                // %most = reduce_max %groups : f32
  }
}

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
        (float*)ctx->pointers[(uint64_t)tensor_index * 1 + 0] + chunk->begin;  // @grad, f32
    float lanes_t_sum[SF_LANES];
    sf_fold_add_f32_clear(lanes_t_sum);
    for (uint32_t i = 0; i < chunk->length; ++i) {
      const float e_g = b_grad[i];  // %g = load @grad : [f32]
      const uint64_t lane = (tensor->offset + chunk->begin + i) % SF_LANES;
      lanes_t_sum[lane] = sf_add_f32(lanes_t_sum[lane], e_g);  // %sum = reduce_add %g : <f32>
    }
    ((float*)ctx->slots[0])[c] = sf_fold_add_f32_lanes(lanes_t_sum);
  }
}

void sf_finish(const sf_context* ctx) {
  const float s_most = ((float*)ctx->results[2])[0];  // %most = reduce_max %groups : f32
  for (uint32_t group = 0; group < ctx->group_count; ++group) {
    const float g_groups = ((float*)ctx->results[1])[group];  // %groups = reduce_add %size : {f32}
    ((float*)ctx->states[0])[group] = g_groups;               // write @groups, %groups
  }
  ((float*)ctx->states[1])[0] = s_most;  // write @most, %most
}

void sf_run(const sf_context* ctx) {
  sf_phase_0(ctx, 0, ctx->chunk_count);                             // reduce
  sf_fold_add_f32(ctx->parts + 5, ctx->slots[0], ctx->results[0]);  // %sum = reduce_add %g : <f32>
  sf_rollup_0_0(ctx);
  sf_fold_add_f32(ctx->parts + 2, ctx->slots[1],
                  ctx->results[1]);  // %groups = reduce_add %size : {f32}
  sf_rollup_0_1(ctx);
  sf_fold_max_f32(ctx->parts + 0, ctx->slots[2],
                  ctx->results[2]);  // %most = reduce_max %groups : f32
  sf_finish(ctx);
}
