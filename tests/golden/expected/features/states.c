// step @states, form fused: generated, self-contained C11.
enum { SF_LANES = 2048, SF_PIECE = 16384 };
// … prelude.h …

SF_REDUCTION(sf_fold_max_i64, int64_t, INT64_MIN, sf_max_i64)

void sf_rollup_0_0(const sf_context* ctx) {
  for (uint32_t tensor_index = 0; tensor_index < ctx->tensor_count; ++tensor_index) {
    const sf_tensor* const tensor = ctx->tensors + tensor_index;
    const int64_t t_t0 = ((int64_t*)ctx->states[0])[tensor_index];  // %t0 = read @count : <i64>
    ((int64_t*)ctx->slots[0])[tensor_index] = t_t0;                 // %all = reduce_max %t0 : i64
  }
}

void sf_phase_0(const sf_context* ctx, uint32_t begin, uint32_t end) {
  for (uint32_t c = begin; c < end; ++c) {
    const sf_chunk* const chunk = ctx->chunks + c;
    const uint32_t tensor_index = chunk->tensor;
    const sf_tensor* const tensor = ctx->tensors + tensor_index;
    if ((tensor->flags & SF_PRESENT) == 0) {
      continue;
    }
    const uint32_t group = tensor->group;
    const float g_rate = ((float*)ctx->states[1])[group];  // %rate = read @rate : {f32}
    float* const b_weight =
        (float*)ctx->pointers[(uint64_t)tensor_index * 1 + 0] + chunk->begin;  // @weight, f32
    for (uint32_t i = 0; i < chunk->length; ++i) {
      const float e_w = b_weight[i];    // %w = load @weight : [f32]
      const float e_w1 = e_w * g_rate;  // %w1 = mul %w, %rate : [f32]
      b_weight[i] = e_w1;               // store @weight, %w1
    }
  }
}

void sf_finish(const sf_context* ctx) {
  const float s_limit = sf_arg_f32(ctx->step_args + 0);  // arg %limit : f32 = 10
  const bool s_bad = ((uint8_t*)ctx->states[2])[0];      // %bad = read @bad : bool
  const bool s_good = !s_bad;                            // %good = not %bad : bool
  const int64_t s_all = ((int64_t*)ctx->results[0])[0];  // %all = reduce_max %t0 : i64
  for (uint32_t tensor_index = 0; tensor_index < ctx->tensor_count; ++tensor_index) {
    const sf_tensor* const tensor = ctx->tensors + tensor_index;
    if ((tensor->flags & SF_PRESENT) == 0) continue;
    const int64_t t_t0 = ((int64_t*)ctx->states[0])[tensor_index];  // %t0 = read @count : <i64>
    const int64_t t_t1 = sf_add_i64(t_t0, INT64_C(1));              // %t1 = add %t0, %one : <i64>
    if (s_good) ((int64_t*)ctx->states[0])[tensor_index] = t_t1;    // write @count, %t1 if %good
  }
  for (uint32_t group = 0; group < ctx->group_count; ++group) {
    const float g_rate = ((float*)ctx->states[1])[group];  // %rate = read @rate : {f32}
    const float g_next = sf_min_f32(g_rate, s_limit);      // %next = min %rate, %limit : {f32}
    ((float*)ctx->states[1])[group] = g_next;              // write @rate, %next
  }
  ((int64_t*)ctx->states[3])[0] = s_all;  // write @steps, %all
}

void sf_run(const sf_context* ctx) {
  sf_phase_0(ctx, 0, ctx->chunk_count);  // update
  sf_rollup_0_0(ctx);
  sf_fold_max_i64(ctx->parts + 1, ctx->slots[0], ctx->results[0]);  // %all = reduce_max %t0 : i64
  sf_finish(ctx);
}
