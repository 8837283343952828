; stepfuse: step @sgd, 8 lanes
; signature 0: @grad=f32 @weight=f32

define void @sf_enter_0(ptr %ctx) #0 {
entry:
  %chunks = getelementptr i8, ptr %ctx, i64 0
  %chunks.1 = load ptr, ptr %chunks
  %tensors = getelementptr i8, ptr %ctx, i64 8
  %tensors.1 = load ptr, ptr %tensors
  %pointers = getelementptr i8, ptr %ctx, i64 16
  %pointers.1 = load ptr, ptr %pointers
  %step_args = getelementptr i8, ptr %ctx, i64 24
  %step_args.1 = load ptr, ptr %step_args
  %group_args = getelementptr i8, ptr %ctx, i64 32
  %group_args.1 = load ptr, ptr %group_args
  %states = getelementptr i8, ptr %ctx, i64 40
  %states.1 = load ptr, ptr %states
  %slots = getelementptr i8, ptr %ctx, i64 48
  %slots.1 = load ptr, ptr %slots
  %results = getelementptr i8, ptr %ctx, i64 56
  %results.1 = load ptr, ptr %results
  %scalars = getelementptr i8, ptr %ctx, i64 64
  %scalars.1 = load ptr, ptr %scalars
  %scratch = getelementptr i8, ptr %ctx, i64 72
  %scratch.1 = load ptr, ptr %scratch
  %chunk_count = getelementptr i8, ptr %ctx, i64 80
  %chunk_count.1 = load i32, ptr %chunk_count
  %chunk_count.2 = zext i32 %chunk_count.1 to i64
  %tensor_count = getelementptr i8, ptr %ctx, i64 84
  %tensor_count.1 = load i32, ptr %tensor_count
  %tensor_count.2 = zext i32 %tensor_count.1 to i64
  %group_count = getelementptr i8, ptr %ctx, i64 88
  %group_count.1 = load i32, ptr %group_count
  %group_count.2 = zext i32 %group_count.1 to i64
  ret void
}

define void @sf_phase_0(ptr noalias readonly %ctx, i64 %begin, i64 %end) #0 {
entry:
  %tail.0 = alloca [8 x float], align 64
  %lanes.r1 = alloca [2048 x float], align 64
  %lanes.tail.r1 = alloca [8 x float], align 64
  %chunks = getelementptr i8, ptr %ctx, i64 0
  %chunks.1 = load ptr, ptr %chunks
  %tensors = getelementptr i8, ptr %ctx, i64 8
  %tensors.1 = load ptr, ptr %tensors
  %pointers = getelementptr i8, ptr %ctx, i64 16
  %pointers.1 = load ptr, ptr %pointers
  %step_args = getelementptr i8, ptr %ctx, i64 24
  %step_args.1 = load ptr, ptr %step_args
  %group_args = getelementptr i8, ptr %ctx, i64 32
  %group_args.1 = load ptr, ptr %group_args
  %states = getelementptr i8, ptr %ctx, i64 40
  %states.1 = load ptr, ptr %states
  %slots = getelementptr i8, ptr %ctx, i64 48
  %slots.1 = load ptr, ptr %slots
  %results = getelementptr i8, ptr %ctx, i64 56
  %results.1 = load ptr, ptr %results
  %scalars = getelementptr i8, ptr %ctx, i64 64
  %scalars.1 = load ptr, ptr %scalars
  %scratch = getelementptr i8, ptr %ctx, i64 72
  %scratch.1 = load ptr, ptr %scratch
  %chunk_count = getelementptr i8, ptr %ctx, i64 80
  %chunk_count.1 = load i32, ptr %chunk_count
  %chunk_count.2 = zext i32 %chunk_count.1 to i64
  %tensor_count = getelementptr i8, ptr %ctx, i64 84
  %tensor_count.1 = load i32, ptr %tensor_count
  %tensor_count.2 = zext i32 %tensor_count.1 to i64
  %group_count = getelementptr i8, ptr %ctx, i64 88
  %group_count.1 = load i32, ptr %group_count
  %group_count.2 = zext i32 %group_count.1 to i64
  br label %start
start:
  %is_large = icmp uge i64 %chunk_count.2, 1024
  br label %chunk.loop
chunk.loop:
  %c = phi i64 [ %begin, %start ], [ %c.next, %chunk.next ]
  %more = icmp slt i64 %c, %end
  br i1 %more, label %chunk, label %end.1
chunk:
  %chunk.at = getelementptr [24 x i8], ptr %chunks.1, i64 %c
  %tensor = getelementptr i8, ptr %chunk.at, i64 0
  %tensor.1 = load i32, ptr %tensor
  %tensor.2 = zext i32 %tensor.1 to i64
  %signature = getelementptr i8, ptr %chunk.at, i64 4
  %signature.1 = load i32, ptr %signature
  %signature.2 = zext i32 %signature.1 to i64
  %length = getelementptr i8, ptr %chunk.at, i64 8
  %length.1 = load i32, ptr %length
  %length.2 = zext i32 %length.1 to i64
  %begin.1 = getelementptr i8, ptr %chunk.at, i64 16
  %begin.2 = load i64, ptr %begin.1
  %tensor.at = getelementptr [32 x i8], ptr %tensors.1, i64 %tensor.2
  %flags = getelementptr i8, ptr %tensor.at, i64 4
  %flags.1 = load i32, ptr %flags
  %flags.2 = zext i32 %flags.1 to i64
  %group = getelementptr i8, ptr %tensor.at, i64 0
  %group.1 = load i32, ptr %group
  %group.2 = zext i32 %group.1 to i64
  %offset = getelementptr i8, ptr %tensor.at, i64 16
  %offset.1 = load i64, ptr %offset
  %scratch_base = getelementptr i8, ptr %tensor.at, i64 24
  %scratch_base.1 = load i64, ptr %scratch_base
  %position = add i64 %offset.1, %begin.2
  %present = and i64 %flags.2, 1
  %present.1 = icmp ne i64 %present, 0
  br i1 %present.1, label %chunk.present, label %chunk.absent
chunk.absent:
  %slot = getelementptr [8 x i8], ptr %slots.1, i64 0
  %slot.1 = load ptr, ptr %slot
  %slot.2 = getelementptr [1 x i8], ptr %slot.1, i64 %c
  %byte = zext i1 false to i8
  store i8 %byte, ptr %slot.2, align 1
  %slot.3 = getelementptr [8 x i8], ptr %slots.1, i64 1
  %slot.4 = load ptr, ptr %slot.3
  %slot.5 = getelementptr [4 x i8], ptr %slot.4, i64 %c
  store float 0x0000000000000000, ptr %slot.5, align 1
  br label %chunk.next
chunk.present:
  switch i64 %signature.2, label %signature.0 [ ]
signature.0:
  %vectors = lshr i64 %length.2, 3
  %tail = and i64 %length.2, 7
  %grad = getelementptr [16 x i8], ptr %pointers.1, i64 %tensor.2
  %grad.1 = getelementptr [8 x i8], ptr %grad, i64 0
  %grad.2 = load ptr, ptr %grad.1
  %grad.3 = getelementptr [4 x i8], ptr %grad.2, i64 %begin.2
  %lane.start = and i64 %position, 2047
  %lane.count = sub i64 %length.2, 1
  %lane.count.1 = or i64 %lane.count, 7
  %lane.count.2 = call i64 @llvm.ctlz.i64(i64 %lane.count.1, i1 false)
  %lane.count.3 = sub i64 64, %lane.count.2
  %lane.count.4 = shl i64 1, %lane.count.3
  %lane.short = icmp ult i64 %lane.count.4, 2048
  %lane.short.1 = icmp eq i64 %lane.start, 0
  %lane.short.2 = and i1 %lane.short, %lane.short.1
  %lane.count.5 = select i1 %lane.short.2, i64 %lane.count.4, i64 2048
  call void @sf_zero_lanes(ptr %lanes.r1, i64 %lane.count.5)
  br label %body
body:
  br label %pass
pass:
  %is_tail = phi i1 [ false, %body ], [ true, %tail.in ]
  %count = phi i64 [ %vectors, %body ], [ 1, %tail.in ]
  %p = phi ptr [ %grad.3, %body ], [ %tail.0, %tail.in ]
  %found_inf = phi <8 x i32> [ <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>, %body ], [ %found_inf.after, %tail.in ]
  %lanes = phi ptr [ %lanes.r1, %body ], [ %lanes.tail.r1, %tail.in ]
  %whole = xor i1 %is_tail, true
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %pass.after, label %loop
loop:
  %i = phi i64 [ 0, %pass ], [ %i.next, %loop.end ]
  %found_inf.1 = phi <8 x i32> [ %found_inf, %pass ], [ %found_inf.next, %loop.end ]
  %at = getelementptr [32 x i8], ptr %p, i64 %i
  %ahead = getelementptr i8, ptr %at, i64 8192
  call void @llvm.prefetch.p0(ptr %ahead, i32 0, i32 3, i32 1)
  ; %grad = load @grad : [f32]
  %grad.4 = load <8 x float>, ptr %at, align 1
  ; %finite = isfinite %grad : [bool]
  %finite = call <8 x float> @llvm.fabs.v8f32(<8 x float> %grad.4)
  %finite.1 = fcmp olt <8 x float> %finite, <float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000>
  ; %nonfinite = not %finite : [bool]
  %nonfinite = xor <8 x i1> %finite.1, <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true>
  ; %g_square = mul %grad, %grad : [f32]
  %g_square = fmul <8 x float> %grad.4, %grad.4
  ; %found_inf = reduce_any %nonfinite : bool
  %seen = sext <8 x i1> %nonfinite to <8 x i32>
  %combined = or <8 x i32> %found_inf.1, %seen
  %found_inf.next = bitcast <8 x i32> %combined to <8 x i32>
  ; %sum = reduce_add %g_square : {f32}
  %lane = shl i64 %i, 3
  %lane.1 = and i64 %lane, 2047
  %lane.2 = getelementptr [4 x i8], ptr %lanes, i64 %lane.1
  %lane.3 = load <8 x float>, ptr %lane.2, align 32
  %lane.4 = fadd <8 x float> %lane.3, %g_square
  store <8 x float> %lane.4, ptr %lane.2, align 32
  br label %loop.end
loop.end:
  %i.next = add nuw i64 %i, 1
  %more.1 = icmp ult i64 %i.next, %count
  br i1 %more.1, label %loop, label %pass.after
pass.after:
  %found_inf.after = phi <8 x i32> [ %found_inf, %pass ], [ %found_inf.next, %loop.end ]
  br i1 %is_tail, label %tail.out, label %pass.whole.end
pass.whole.end:
  %tail.none = icmp eq i64 %tail, 0
  br i1 %tail.none, label %body.done, label %tail.in
tail.in:
  %rest = getelementptr [32 x i8], ptr %grad.3, i64 %vectors
  %bytes = mul i64 %tail, 4
  call void @sf_copy(ptr %tail.0, ptr %rest, i64 %bytes)
  %walked = mul i64 %vectors, 8
  %lane.5 = and i64 %walked, 2047
  %lane.6 = getelementptr [4 x i8], ptr %lanes.r1, i64 %lane.5
  %lanes.1 = load <8 x float>, ptr %lane.6, align 1
  store <8 x float> %lanes.1, ptr %lanes.tail.r1, align 1
  br label %pass
tail.out:
  %tail.count = trunc i64 %tail to i32
  %tail.count.1 = insertelement <8 x i32> poison, i32 %tail.count, i32 0
  %tail.count.2 = shufflevector <8 x i32> %tail.count.1, <8 x i32> poison, <8 x i32> zeroinitializer
  %active = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %tail.count.2
  %merged = select <8 x i1> %active, <8 x i32> %found_inf.after, <8 x i32> %found_inf
  %walked.1 = mul i64 %vectors, 8
  %lane.7 = and i64 %walked.1, 2047
  %lane.8 = getelementptr [4 x i8], ptr %lanes.r1, i64 %lane.7
  %lanes.2 = load <8 x float>, ptr %lanes.tail.r1, align 1
  %lanes.3 = load <8 x float>, ptr %lane.8, align 1
  %merged.1 = select <8 x i1> %active, <8 x float> %lanes.2, <8 x float> %lanes.3
  store <8 x float> %merged.1, ptr %lane.8, align 1
  br label %body.done
body.done:
  %found_inf.2 = phi <8 x i32> [ %found_inf.after, %pass.whole.end ], [ %merged, %tail.out ]
  %upper = shufflevector <8 x i32> %found_inf.2, <8 x i32> poison, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 0, i32 1, i32 2, i32 3>
  %found_inf.3 = or <8 x i32> %found_inf.2, %upper
  %upper.1 = shufflevector <8 x i32> %found_inf.3, <8 x i32> poison, <8 x i32> <i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 0, i32 1>
  %found_inf.4 = or <8 x i32> %found_inf.3, %upper.1
  %upper.2 = shufflevector <8 x i32> %found_inf.4, <8 x i32> poison, <8 x i32> <i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 0>
  %found_inf.5 = or <8 x i32> %found_inf.4, %upper.2
  %found_inf.6 = extractelement <8 x i32> %found_inf.5, i32 0
  %found_inf.7 = icmp ne i32 %found_inf.6, 0
  %slot.6 = getelementptr [8 x i8], ptr %slots.1, i64 0
  %slot.7 = load ptr, ptr %slot.6
  %slot.8 = getelementptr [1 x i8], ptr %slot.7, i64 %c
  %byte.1 = zext i1 %found_inf.7 to i8
  store i8 %byte.1, ptr %slot.8, align 1
  %sum = call float @sf_fold_lanes(ptr %lanes.r1, i64 %lane.start, i64 %lane.count.5)
  %slot.9 = getelementptr [8 x i8], ptr %slots.1, i64 1
  %slot.10 = load ptr, ptr %slot.9
  %slot.11 = getelementptr [4 x i8], ptr %slot.10, i64 %c
  store float %sum, ptr %slot.11, align 1
  br label %chunk.next
chunk.next:
  %c.next = add nuw nsw i64 %c, 1
  br label %chunk.loop
end.1:
  %is_large.1 = icmp uge i64 %chunk_count.2, 1024
  br i1 %is_large.1, label %fence, label %leave
fence:
  fence seq_cst
  br label %leave
leave:
  ret void
}

define void @sf_rollup_0_0(ptr %ctx) #0 {
entry:
  %chunks = getelementptr i8, ptr %ctx, i64 0
  %chunks.1 = load ptr, ptr %chunks
  %tensors = getelementptr i8, ptr %ctx, i64 8
  %tensors.1 = load ptr, ptr %tensors
  %pointers = getelementptr i8, ptr %ctx, i64 16
  %pointers.1 = load ptr, ptr %pointers
  %step_args = getelementptr i8, ptr %ctx, i64 24
  %step_args.1 = load ptr, ptr %step_args
  %group_args = getelementptr i8, ptr %ctx, i64 32
  %group_args.1 = load ptr, ptr %group_args
  %states = getelementptr i8, ptr %ctx, i64 40
  %states.1 = load ptr, ptr %states
  %slots = getelementptr i8, ptr %ctx, i64 48
  %slots.1 = load ptr, ptr %slots
  %results = getelementptr i8, ptr %ctx, i64 56
  %results.1 = load ptr, ptr %results
  %scalars = getelementptr i8, ptr %ctx, i64 64
  %scalars.1 = load ptr, ptr %scalars
  %scratch = getelementptr i8, ptr %ctx, i64 72
  %scratch.1 = load ptr, ptr %scratch
  %chunk_count = getelementptr i8, ptr %ctx, i64 80
  %chunk_count.1 = load i32, ptr %chunk_count
  %chunk_count.2 = zext i32 %chunk_count.1 to i64
  %tensor_count = getelementptr i8, ptr %ctx, i64 84
  %tensor_count.1 = load i32, ptr %tensor_count
  %tensor_count.2 = zext i32 %tensor_count.1 to i64
  %group_count = getelementptr i8, ptr %ctx, i64 88
  %group_count.1 = load i32, ptr %group_count
  %group_count.2 = zext i32 %group_count.1 to i64
  br label %group.before
group.before:
  br label %group.test
group.test:
  %group = phi i64 [ 0, %group.before ], [ %next, %group.next ]
  %more = icmp ult i64 %group, %group_count.2
  br i1 %more, label %group.work, label %group.end
group.work:
  ; %sum = reduce_add %g_square : {f32}
  %sum = getelementptr [8 x i8], ptr %results.1, i64 1
  %sum.1 = load ptr, ptr %sum
  %sum.2 = getelementptr [4 x i8], ptr %sum.1, i64 %group
  %sum.3 = load float, ptr %sum.2, align 1
  ; %norm = sqrt %sum : {f32}
  %norm = call float @llvm.sqrt.f32(float %sum.3)
  ; %norm_finite = isfinite %norm : {bool}
  %norm_finite = call float @llvm.fabs.f32(float %norm)
  %norm_finite.1 = fcmp olt float %norm_finite, 0x7FF0000000000000
  ; %norm_nonfinite = not %norm_finite : {bool}
  %norm_nonfinite = xor i1 %norm_finite.1, true
  ; %any_norm = reduce_any %norm_nonfinite : bool
  %slot = getelementptr [8 x i8], ptr %slots.1, i64 2
  %slot.1 = load ptr, ptr %slot
  %slot.2 = getelementptr [1 x i8], ptr %slot.1, i64 %group
  %byte = zext i1 %norm_nonfinite to i8
  store i8 %byte, ptr %slot.2, align 1
  br label %group.next
group.next:
  %next = add i64 %group, 1
  br label %group.test
group.end:
  ret void
}

define void @sf_enter_1(ptr %ctx) #0 {
entry:
  %chunks = getelementptr i8, ptr %ctx, i64 0
  %chunks.1 = load ptr, ptr %chunks
  %tensors = getelementptr i8, ptr %ctx, i64 8
  %tensors.1 = load ptr, ptr %tensors
  %pointers = getelementptr i8, ptr %ctx, i64 16
  %pointers.1 = load ptr, ptr %pointers
  %step_args = getelementptr i8, ptr %ctx, i64 24
  %step_args.1 = load ptr, ptr %step_args
  %group_args = getelementptr i8, ptr %ctx, i64 32
  %group_args.1 = load ptr, ptr %group_args
  %states = getelementptr i8, ptr %ctx, i64 40
  %states.1 = load ptr, ptr %states
  %slots = getelementptr i8, ptr %ctx, i64 48
  %slots.1 = load ptr, ptr %slots
  %results = getelementptr i8, ptr %ctx, i64 56
  %results.1 = load ptr, ptr %results
  %scalars = getelementptr i8, ptr %ctx, i64 64
  %scalars.1 = load ptr, ptr %scalars
  %scratch = getelementptr i8, ptr %ctx, i64 72
  %scratch.1 = load ptr, ptr %scratch
  %chunk_count = getelementptr i8, ptr %ctx, i64 80
  %chunk_count.1 = load i32, ptr %chunk_count
  %chunk_count.2 = zext i32 %chunk_count.1 to i64
  %tensor_count = getelementptr i8, ptr %ctx, i64 84
  %tensor_count.1 = load i32, ptr %tensor_count
  %tensor_count.2 = zext i32 %tensor_count.1 to i64
  %group_count = getelementptr i8, ptr %ctx, i64 88
  %group_count.1 = load i32, ptr %group_count
  %group_count.2 = zext i32 %group_count.1 to i64
  ; %found_inf = reduce_any %nonfinite : bool
  %found_inf = getelementptr [8 x i8], ptr %results.1, i64 0
  %found_inf.1 = load ptr, ptr %found_inf
  %found_inf.2 = getelementptr [1 x i8], ptr %found_inf.1, i64 0
  %found_inf.3 = load i8, ptr %found_inf.2, align 1
  %found_inf.4 = icmp ne i8 %found_inf.3, 0
  ; %any_norm = reduce_any %norm_nonfinite : bool
  %any_norm = getelementptr [8 x i8], ptr %results.1, i64 2
  %any_norm.1 = load ptr, ptr %any_norm
  %any_norm.2 = getelementptr [1 x i8], ptr %any_norm.1, i64 0
  %any_norm.3 = load i8, ptr %any_norm.2, align 1
  %any_norm.4 = icmp ne i8 %any_norm.3, 0
  ; %all_finite = not %found_inf : bool
  %all_finite = xor i1 %found_inf.4, true
  ; %norm_overflow = and %any_norm, %all_finite : bool
  %norm_overflow = and i1 %any_norm.4, %all_finite
  ; %c_1e_06_f32 = const 1e-06 : f32
  ; %c_1_f32 = const 1 : f32
  ; %bad = or %found_inf, %norm_overflow : bool
  %bad = or i1 %found_inf.4, %norm_overflow
  ; %good = not %bad : bool
  %good = xor i1 %bad, true
  ; %c_0_f64 = const 0 : f64
  %found_inf.5 = getelementptr [8 x i8], ptr %scalars.1, i64 7
  store i64 0, ptr %found_inf.5
  %byte = zext i1 %found_inf.4 to i8
  store i8 %byte, ptr %found_inf.5, align 1
  %any_norm.5 = getelementptr [8 x i8], ptr %scalars.1, i64 14
  store i64 0, ptr %any_norm.5
  %byte.1 = zext i1 %any_norm.4 to i8
  store i8 %byte.1, ptr %any_norm.5, align 1
  %all_finite.1 = getelementptr [8 x i8], ptr %scalars.1, i64 15
  store i64 0, ptr %all_finite.1
  %byte.2 = zext i1 %all_finite to i8
  store i8 %byte.2, ptr %all_finite.1, align 1
  %norm_overflow.1 = getelementptr [8 x i8], ptr %scalars.1, i64 16
  store i64 0, ptr %norm_overflow.1
  %byte.3 = zext i1 %norm_overflow to i8
  store i8 %byte.3, ptr %norm_overflow.1, align 1
  %bad.1 = getelementptr [8 x i8], ptr %scalars.1, i64 26
  store i64 0, ptr %bad.1
  %byte.4 = zext i1 %bad to i8
  store i8 %byte.4, ptr %bad.1, align 1
  %good.1 = getelementptr [8 x i8], ptr %scalars.1, i64 27
  store i64 0, ptr %good.1
  %byte.5 = zext i1 %good to i8
  store i8 %byte.5, ptr %good.1, align 1
  ret void
}

define void @sf_phase_1(ptr noalias readonly %ctx, i64 %begin, i64 %end) #0 {
entry:
  %group.of = alloca i64, align 8
  %lr.of = alloca double, align 8
  %weight_decay.of = alloca double, align 8
  %max_norm.of = alloca double, align 8
  %sum.of = alloca float, align 8
  %norm.of = alloca float, align 8
  %norm_plus.of = alloca float, align 8
  %inv_norm.of = alloca float, align 8
  %max_norm_f32.of = alloca float, align 8
  %clip_ratio.of = alloca float, align 8
  %clip_coef.of = alloca float, align 8
  %no_decay.of = alloca i1, align 8
  %weight_decay_f32.of = alloca float, align 8
  %lr_f32.of = alloca float, align 8
  %descent.of = alloca float, align 8
  %tail.0 = alloca [8 x float], align 64
  %tail.1 = alloca [8 x float], align 64
  %chunks = getelementptr i8, ptr %ctx, i64 0
  %chunks.1 = load ptr, ptr %chunks
  %tensors = getelementptr i8, ptr %ctx, i64 8
  %tensors.1 = load ptr, ptr %tensors
  %pointers = getelementptr i8, ptr %ctx, i64 16
  %pointers.1 = load ptr, ptr %pointers
  %step_args = getelementptr i8, ptr %ctx, i64 24
  %step_args.1 = load ptr, ptr %step_args
  %group_args = getelementptr i8, ptr %ctx, i64 32
  %group_args.1 = load ptr, ptr %group_args
  %states = getelementptr i8, ptr %ctx, i64 40
  %states.1 = load ptr, ptr %states
  %slots = getelementptr i8, ptr %ctx, i64 48
  %slots.1 = load ptr, ptr %slots
  %results = getelementptr i8, ptr %ctx, i64 56
  %results.1 = load ptr, ptr %results
  %scalars = getelementptr i8, ptr %ctx, i64 64
  %scalars.1 = load ptr, ptr %scalars
  %scratch = getelementptr i8, ptr %ctx, i64 72
  %scratch.1 = load ptr, ptr %scratch
  %chunk_count = getelementptr i8, ptr %ctx, i64 80
  %chunk_count.1 = load i32, ptr %chunk_count
  %chunk_count.2 = zext i32 %chunk_count.1 to i64
  %tensor_count = getelementptr i8, ptr %ctx, i64 84
  %tensor_count.1 = load i32, ptr %tensor_count
  %tensor_count.2 = zext i32 %tensor_count.1 to i64
  %group_count = getelementptr i8, ptr %ctx, i64 88
  %group_count.1 = load i32, ptr %group_count
  %group_count.2 = zext i32 %group_count.1 to i64
  %found_inf = getelementptr [8 x i8], ptr %scalars.1, i64 7
  %found_inf.1 = load i8, ptr %found_inf, align 1
  %found_inf.2 = icmp ne i8 %found_inf.1, 0
  %any_norm = getelementptr [8 x i8], ptr %scalars.1, i64 14
  %any_norm.1 = load i8, ptr %any_norm, align 1
  %any_norm.2 = icmp ne i8 %any_norm.1, 0
  %all_finite = getelementptr [8 x i8], ptr %scalars.1, i64 15
  %all_finite.1 = load i8, ptr %all_finite, align 1
  %all_finite.2 = icmp ne i8 %all_finite.1, 0
  %norm_overflow = getelementptr [8 x i8], ptr %scalars.1, i64 16
  %norm_overflow.1 = load i8, ptr %norm_overflow, align 1
  %norm_overflow.2 = icmp ne i8 %norm_overflow.1, 0
  %bad = getelementptr [8 x i8], ptr %scalars.1, i64 26
  %bad.1 = load i8, ptr %bad, align 1
  %bad.2 = icmp ne i8 %bad.1, 0
  %good = getelementptr [8 x i8], ptr %scalars.1, i64 27
  %good.1 = load i8, ptr %good, align 1
  %good.2 = icmp ne i8 %good.1, 0
  br i1 %good.2, label %start, label %end.1
start:
  store i64 -1, ptr %group.of
  %is_large = icmp uge i64 %chunk_count.2, 1024
  br label %chunk.loop
chunk.loop:
  %c = phi i64 [ %begin, %start ], [ %c.next, %chunk.next ]
  %more = icmp slt i64 %c, %end
  br i1 %more, label %chunk, label %end.1
chunk:
  %chunk.at = getelementptr [24 x i8], ptr %chunks.1, i64 %c
  %tensor = getelementptr i8, ptr %chunk.at, i64 0
  %tensor.1 = load i32, ptr %tensor
  %tensor.2 = zext i32 %tensor.1 to i64
  %signature = getelementptr i8, ptr %chunk.at, i64 4
  %signature.1 = load i32, ptr %signature
  %signature.2 = zext i32 %signature.1 to i64
  %length = getelementptr i8, ptr %chunk.at, i64 8
  %length.1 = load i32, ptr %length
  %length.2 = zext i32 %length.1 to i64
  %begin.1 = getelementptr i8, ptr %chunk.at, i64 16
  %begin.2 = load i64, ptr %begin.1
  %tensor.at = getelementptr [32 x i8], ptr %tensors.1, i64 %tensor.2
  %flags = getelementptr i8, ptr %tensor.at, i64 4
  %flags.1 = load i32, ptr %flags
  %flags.2 = zext i32 %flags.1 to i64
  %group = getelementptr i8, ptr %tensor.at, i64 0
  %group.1 = load i32, ptr %group
  %group.2 = zext i32 %group.1 to i64
  %offset = getelementptr i8, ptr %tensor.at, i64 16
  %offset.1 = load i64, ptr %offset
  %scratch_base = getelementptr i8, ptr %tensor.at, i64 24
  %scratch_base.1 = load i64, ptr %scratch_base
  %position = add i64 %offset.1, %begin.2
  %present = and i64 %flags.2, 1
  %present.1 = icmp ne i64 %present, 0
  br i1 %present.1, label %chunk.present, label %chunk.absent
chunk.absent:
  br label %chunk.next
chunk.present:
  %last = load i64, ptr %group.of
  %same = icmp eq i64 %last, %group.2
  br i1 %same, label %group.ready, label %group.new
group.new:
  store i64 %group.2, ptr %group.of
  ; arg %lr : {f64} = 0.001
  %lr = getelementptr [24 x i8], ptr %group_args.1, i64 %group.2
  %lr.1 = getelementptr [8 x i8], ptr %lr, i64 0
  %lr.2 = load double, ptr %lr.1, align 1
  ; arg %weight_decay : {f64} = 0
  %weight_decay = getelementptr [24 x i8], ptr %group_args.1, i64 %group.2
  %weight_decay.1 = getelementptr [8 x i8], ptr %weight_decay, i64 1
  %weight_decay.2 = load double, ptr %weight_decay.1, align 1
  ; arg %max_norm : {f64} = 1
  %max_norm = getelementptr [24 x i8], ptr %group_args.1, i64 %group.2
  %max_norm.1 = getelementptr [8 x i8], ptr %max_norm, i64 2
  %max_norm.2 = load double, ptr %max_norm.1, align 1
  ; %sum = reduce_add %g_square : {f32}
  %sum = getelementptr [8 x i8], ptr %results.1, i64 1
  %sum.1 = load ptr, ptr %sum
  %sum.2 = getelementptr [4 x i8], ptr %sum.1, i64 %group.2
  %sum.3 = load float, ptr %sum.2, align 1
  ; %norm = sqrt %sum : {f32}
  %norm = call float @llvm.sqrt.f32(float %sum.3)
  ; %norm_plus = add %norm, %c_1e_06_f32 : {f32}
  %norm_plus = fadd float %norm, 0x3EB0C6F7A0000000
  ; %inv_norm = rcp %norm_plus : {f32}
  %inv_norm = fdiv float 0x3FF0000000000000, %norm_plus
  ; %max_norm_f32 = cast %max_norm : {f32}
  %max_norm_f32 = fptrunc double %max_norm.2 to float
  ; %clip_ratio = mul %inv_norm, %max_norm_f32 : {f32}
  %clip_ratio = fmul float %inv_norm, %max_norm_f32
  ; %clip_coef = min %clip_ratio, %c_1_f32 : {f32}
  %clip_coef = call float @llvm.minimum.f32(float %clip_ratio, float 0x3FF0000000000000)
  ; %no_decay = eq %weight_decay, %c_0_f64 : {bool}
  %no_decay = fcmp oeq double %weight_decay.2, 0x0000000000000000
  ; %weight_decay_f32 = cast %weight_decay : {f32}
  %weight_decay_f32 = fptrunc double %weight_decay.2 to float
  ; %lr_f32 = cast %lr : {f32}
  %lr_f32 = fptrunc double %lr.2 to float
  ; %descent = neg %lr_f32 : {f32}
  %descent = fneg float %lr_f32
  store double %lr.2, ptr %lr.of
  store double %weight_decay.2, ptr %weight_decay.of
  store double %max_norm.2, ptr %max_norm.of
  store float %sum.3, ptr %sum.of
  store float %norm, ptr %norm.of
  store float %norm_plus, ptr %norm_plus.of
  store float %inv_norm, ptr %inv_norm.of
  store float %max_norm_f32, ptr %max_norm_f32.of
  store float %clip_ratio, ptr %clip_ratio.of
  store float %clip_coef, ptr %clip_coef.of
  store i1 %no_decay, ptr %no_decay.of
  store float %weight_decay_f32, ptr %weight_decay_f32.of
  store float %lr_f32, ptr %lr_f32.of
  store float %descent, ptr %descent.of
  br label %group.ready
group.ready:
  %lr.3 = load double, ptr %lr.of
  %weight_decay.3 = load double, ptr %weight_decay.of
  %max_norm.3 = load double, ptr %max_norm.of
  %sum.4 = load float, ptr %sum.of
  %norm.1 = load float, ptr %norm.of
  %norm_plus.1 = load float, ptr %norm_plus.of
  %inv_norm.1 = load float, ptr %inv_norm.of
  %max_norm_f32.1 = load float, ptr %max_norm_f32.of
  %clip_ratio.1 = load float, ptr %clip_ratio.of
  %clip_coef.1 = load float, ptr %clip_coef.of
  %no_decay.1 = load i1, ptr %no_decay.of
  %weight_decay_f32.1 = load float, ptr %weight_decay_f32.of
  %lr_f32.1 = load float, ptr %lr_f32.of
  %descent.1 = load float, ptr %descent.of
  br i1 %good.2, label %guarded, label %otherwise
guarded:
  switch i64 %signature.2, label %signature.0 [ ]
signature.0:
  %vectors = lshr i64 %length.2, 3
  %tail = and i64 %length.2, 7
  %clip_coef.2 = insertelement <8 x float> poison, float %clip_coef.1, i32 0
  %clip_coef.3 = shufflevector <8 x float> %clip_coef.2, <8 x float> poison, <8 x i32> zeroinitializer
  %weight_decay_f32.2 = insertelement <8 x float> poison, float %weight_decay_f32.1, i32 0
  %weight_decay_f32.3 = shufflevector <8 x float> %weight_decay_f32.2, <8 x float> poison, <8 x i32> zeroinitializer
  %no_decay.2 = insertelement <8 x i1> poison, i1 %no_decay.1, i32 0
  %no_decay.3 = shufflevector <8 x i1> %no_decay.2, <8 x i1> poison, <8 x i32> zeroinitializer
  %descent.2 = insertelement <8 x float> poison, float %descent.1, i32 0
  %descent.3 = shufflevector <8 x float> %descent.2, <8 x float> poison, <8 x i32> zeroinitializer
  %grad = getelementptr [16 x i8], ptr %pointers.1, i64 %tensor.2
  %grad.1 = getelementptr [8 x i8], ptr %grad, i64 0
  %grad.2 = load ptr, ptr %grad.1
  %grad.3 = getelementptr [4 x i8], ptr %grad.2, i64 %begin.2
  %weight = getelementptr [16 x i8], ptr %pointers.1, i64 %tensor.2
  %weight.1 = getelementptr [8 x i8], ptr %weight, i64 1
  %weight.2 = load ptr, ptr %weight.1
  %weight.3 = getelementptr [4 x i8], ptr %weight.2, i64 %begin.2
  br label %body
body:
  br label %pass
pass:
  %is_tail = phi i1 [ false, %body ], [ true, %tail.in ]
  %count = phi i64 [ %vectors, %body ], [ 1, %tail.in ]
  %p = phi ptr [ %grad.3, %body ], [ %tail.0, %tail.in ]
  %p.1 = phi ptr [ %weight.3, %body ], [ %tail.1, %tail.in ]
  %whole = xor i1 %is_tail, true
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %pass.after, label %loop
loop:
  %i = phi i64 [ 0, %pass ], [ %i.next, %loop.end ]
  %at = getelementptr [32 x i8], ptr %p, i64 %i
  %at.1 = getelementptr [32 x i8], ptr %p.1, i64 %i
  ; %grad = load @grad : [f32]
  %grad.4 = load <8 x float>, ptr %at, align 1
  ; %g_clipped = mul %grad, %clip_coef : [f32]
  %g_clipped = fmul <8 x float> %grad.4, %clip_coef.3
  ; %w = load @weight : [f32]
  %w = load <8 x float>, ptr %at.1, align 1
  ; %g_decayed = fma %w, %weight_decay_f32, %g_clipped : [f32]
  %g_decayed = call <8 x float> @llvm.fma.v8f32(<8 x float> %w, <8 x float> %weight_decay_f32.3, <8 x float> %g_clipped)
  ; %g_l2 = select %no_decay, %g_clipped, %g_decayed : [f32]
  %g_l2 = select <8 x i1> %no_decay.3, <8 x float> %g_clipped, <8 x float> %g_decayed
  ; %w_new = fma %g_l2, %descent, %w : [f32]
  %w_new = call <8 x float> @llvm.fma.v8f32(<8 x float> %g_l2, <8 x float> %descent.3, <8 x float> %w)
  ; store @weight, %w_new if %good
  store <8 x float> %w_new, ptr %at.1, align 1
  br label %loop.end
loop.end:
  %i.next = add nuw i64 %i, 1
  %more.1 = icmp ult i64 %i.next, %count
  br i1 %more.1, label %loop, label %pass.after
pass.after:
  br i1 %is_tail, label %tail.out, label %pass.whole.end
pass.whole.end:
  %tail.none = icmp eq i64 %tail, 0
  br i1 %tail.none, label %body.done, label %tail.in
tail.in:
  %rest = getelementptr [32 x i8], ptr %grad.3, i64 %vectors
  %bytes = mul i64 %tail, 4
  call void @sf_copy(ptr %tail.0, ptr %rest, i64 %bytes)
  %rest.1 = getelementptr [32 x i8], ptr %weight.3, i64 %vectors
  %bytes.1 = mul i64 %tail, 4
  call void @sf_copy(ptr %tail.1, ptr %rest.1, i64 %bytes.1)
  br label %pass
tail.out:
  %rest.2 = getelementptr [32 x i8], ptr %weight.3, i64 %vectors
  %bytes.2 = mul i64 %tail, 4
  call void @sf_copy(ptr %rest.2, ptr %tail.1, i64 %bytes.2)
  br label %body.done
body.done:
  br label %chunk.next
otherwise:
  switch i64 %signature.2, label %signature.0.1 [ ]
signature.0.1:
  br label %chunk.next
chunk.next:
  %c.next = add nuw nsw i64 %c, 1
  br label %chunk.loop
end.1:
  %is_large.1 = icmp uge i64 %chunk_count.2, 1024
  br i1 %is_large.1, label %fence, label %leave
fence:
  fence seq_cst
  br label %leave
leave:
  ret void
}

define void @sf_finish(ptr %ctx) #0 {
entry:
  %chunks = getelementptr i8, ptr %ctx, i64 0
  %chunks.1 = load ptr, ptr %chunks
  %tensors = getelementptr i8, ptr %ctx, i64 8
  %tensors.1 = load ptr, ptr %tensors
  %pointers = getelementptr i8, ptr %ctx, i64 16
  %pointers.1 = load ptr, ptr %pointers
  %step_args = getelementptr i8, ptr %ctx, i64 24
  %step_args.1 = load ptr, ptr %step_args
  %group_args = getelementptr i8, ptr %ctx, i64 32
  %group_args.1 = load ptr, ptr %group_args
  %states = getelementptr i8, ptr %ctx, i64 40
  %states.1 = load ptr, ptr %states
  %slots = getelementptr i8, ptr %ctx, i64 48
  %slots.1 = load ptr, ptr %slots
  %results = getelementptr i8, ptr %ctx, i64 56
  %results.1 = load ptr, ptr %results
  %scalars = getelementptr i8, ptr %ctx, i64 64
  %scalars.1 = load ptr, ptr %scalars
  %scratch = getelementptr i8, ptr %ctx, i64 72
  %scratch.1 = load ptr, ptr %scratch
  %chunk_count = getelementptr i8, ptr %ctx, i64 80
  %chunk_count.1 = load i32, ptr %chunk_count
  %chunk_count.2 = zext i32 %chunk_count.1 to i64
  %tensor_count = getelementptr i8, ptr %ctx, i64 84
  %tensor_count.1 = load i32, ptr %tensor_count
  %tensor_count.2 = zext i32 %tensor_count.1 to i64
  %group_count = getelementptr i8, ptr %ctx, i64 88
  %group_count.1 = load i32, ptr %group_count
  %group_count.2 = zext i32 %group_count.1 to i64
  ; %found_inf = reduce_any %nonfinite : bool
  %found_inf = getelementptr [8 x i8], ptr %results.1, i64 0
  %found_inf.1 = load ptr, ptr %found_inf
  %found_inf.2 = getelementptr [1 x i8], ptr %found_inf.1, i64 0
  %found_inf.3 = load i8, ptr %found_inf.2, align 1
  %found_inf.4 = icmp ne i8 %found_inf.3, 0
  ; %any_norm = reduce_any %norm_nonfinite : bool
  %any_norm = getelementptr [8 x i8], ptr %results.1, i64 2
  %any_norm.1 = load ptr, ptr %any_norm
  %any_norm.2 = getelementptr [1 x i8], ptr %any_norm.1, i64 0
  %any_norm.3 = load i8, ptr %any_norm.2, align 1
  %any_norm.4 = icmp ne i8 %any_norm.3, 0
  ; %all_finite = not %found_inf : bool
  %all_finite = xor i1 %found_inf.4, true
  ; %norm_overflow = and %any_norm, %all_finite : bool
  %norm_overflow = and i1 %any_norm.4, %all_finite
  ; %c_1e_06_f32 = const 1e-06 : f32
  ; %c_1_f32 = const 1 : f32
  ; %bad = or %found_inf, %norm_overflow : bool
  %bad = or i1 %found_inf.4, %norm_overflow
  ; %c_0_f32 = const 0 : f32
  br label %group.before
group.before:
  br label %group.test
group.test:
  %group = phi i64 [ 0, %group.before ], [ %next, %group.next ]
  %more = icmp ult i64 %group, %group_count.2
  br i1 %more, label %group.work, label %group.end
group.work:
  ; arg %max_norm : {f64} = 1
  %max_norm = getelementptr [24 x i8], ptr %group_args.1, i64 %group
  %max_norm.1 = getelementptr [8 x i8], ptr %max_norm, i64 2
  %max_norm.2 = load double, ptr %max_norm.1, align 1
  ; %sum = reduce_add %g_square : {f32}
  %sum = getelementptr [8 x i8], ptr %results.1, i64 1
  %sum.1 = load ptr, ptr %sum
  %sum.2 = getelementptr [4 x i8], ptr %sum.1, i64 %group
  %sum.3 = load float, ptr %sum.2, align 1
  ; %norm = sqrt %sum : {f32}
  %norm = call float @llvm.sqrt.f32(float %sum.3)
  ; %norm_plus = add %norm, %c_1e_06_f32 : {f32}
  %norm_plus = fadd float %norm, 0x3EB0C6F7A0000000
  ; %inv_norm = rcp %norm_plus : {f32}
  %inv_norm = fdiv float 0x3FF0000000000000, %norm_plus
  ; %max_norm_f32 = cast %max_norm : {f32}
  %max_norm_f32 = fptrunc double %max_norm.2 to float
  ; %clip_ratio = mul %inv_norm, %max_norm_f32 : {f32}
  %clip_ratio = fmul float %inv_norm, %max_norm_f32
  ; %clip_coef = min %clip_ratio, %c_1_f32 : {f32}
  %clip_coef = call float @llvm.minimum.f32(float %clip_ratio, float 0x3FF0000000000000)
  ; %coef_used = select %bad, %c_0_f32, %clip_coef : {f32}
  %coef_used = select i1 %bad, float 0x0000000000000000, float %clip_coef
  %grad_norm = getelementptr [8 x i8], ptr %states.1, i64 1
  %grad_norm.1 = load ptr, ptr %grad_norm
  %grad_norm.2 = getelementptr [4 x i8], ptr %grad_norm.1, i64 %group
  store float %norm, ptr %grad_norm.2, align 1
  %clip_coef.1 = getelementptr [8 x i8], ptr %states.1, i64 2
  %clip_coef.2 = load ptr, ptr %clip_coef.1
  %clip_coef.3 = getelementptr [4 x i8], ptr %clip_coef.2, i64 %group
  store float %coef_used, ptr %clip_coef.3, align 1
  br label %group.next
group.next:
  %next = add i64 %group, 1
  br label %group.test
group.end:
  %found_inf.5 = getelementptr [8 x i8], ptr %states.1, i64 0
  %found_inf.6 = load ptr, ptr %found_inf.5
  %found_inf.7 = getelementptr [1 x i8], ptr %found_inf.6, i64 0
  %byte = zext i1 %found_inf.4 to i8
  store i8 %byte, ptr %found_inf.7, align 1
  %norm_overflow.1 = getelementptr [8 x i8], ptr %states.1, i64 3
  %norm_overflow.2 = load ptr, ptr %norm_overflow.1
  %norm_overflow.3 = getelementptr [1 x i8], ptr %norm_overflow.2, i64 0
  %byte.1 = zext i1 %norm_overflow to i8
  store i8 %byte.1, ptr %norm_overflow.3, align 1
  %skipped = getelementptr [8 x i8], ptr %states.1, i64 4
  %skipped.1 = load ptr, ptr %skipped
  %skipped.2 = getelementptr [1 x i8], ptr %skipped.1, i64 0
  %byte.2 = zext i1 %bad to i8
  store i8 %byte.2, ptr %skipped.2, align 1
  ret void
}

define internal void @sf_copy(ptr %to, ptr %from, i64 %bytes) #1 {
entry:
  br label %part.0
part.0:
  %has.0 = and i64 %bytes, 16
  %skip.0 = icmp eq i64 %has.0, 0
  br i1 %skip.0, label %part.0.end, label %part.0.move
part.0.move:
  %from.0 = getelementptr i8, ptr %from, i64 0
  %to.0 = getelementptr i8, ptr %to, i64 0
  %v.0 = load i128, ptr %from.0, align 1
  store i128 %v.0, ptr %to.0, align 1
  br label %part.0.end
part.0.end:
  %offset.0 = add i64 0, %has.0
  br label %part.1
part.1:
  %has.1 = and i64 %bytes, 8
  %skip.1 = icmp eq i64 %has.1, 0
  br i1 %skip.1, label %part.1.end, label %part.1.move
part.1.move:
  %from.1 = getelementptr i8, ptr %from, i64 %offset.0
  %to.1 = getelementptr i8, ptr %to, i64 %offset.0
  %v.1 = load i64, ptr %from.1, align 1
  store i64 %v.1, ptr %to.1, align 1
  br label %part.1.end
part.1.end:
  %offset.1 = add i64 %offset.0, %has.1
  br label %part.2
part.2:
  %has.2 = and i64 %bytes, 4
  %skip.2 = icmp eq i64 %has.2, 0
  br i1 %skip.2, label %part.2.end, label %part.2.move
part.2.move:
  %from.2 = getelementptr i8, ptr %from, i64 %offset.1
  %to.2 = getelementptr i8, ptr %to, i64 %offset.1
  %v.2 = load i32, ptr %from.2, align 1
  store i32 %v.2, ptr %to.2, align 1
  br label %part.2.end
part.2.end:
  %offset.2 = add i64 %offset.1, %has.2
  br label %part.3
part.3:
  %has.3 = and i64 %bytes, 2
  %skip.3 = icmp eq i64 %has.3, 0
  br i1 %skip.3, label %part.3.end, label %part.3.move
part.3.move:
  %from.3 = getelementptr i8, ptr %from, i64 %offset.2
  %to.3 = getelementptr i8, ptr %to, i64 %offset.2
  %v.3 = load i16, ptr %from.3, align 1
  store i16 %v.3, ptr %to.3, align 1
  br label %part.3.end
part.3.end:
  %offset.3 = add i64 %offset.2, %has.3
  br label %part.4
part.4:
  %has.4 = and i64 %bytes, 1
  %skip.4 = icmp eq i64 %has.4, 0
  br i1 %skip.4, label %part.4.end, label %part.4.move
part.4.move:
  %from.4 = getelementptr i8, ptr %from, i64 %offset.3
  %to.4 = getelementptr i8, ptr %to, i64 %offset.3
  %v.4 = load i8, ptr %from.4, align 1
  store i8 %v.4, ptr %to.4, align 1
  br label %part.4.end
part.4.end:
  %offset.4 = add i64 %offset.3, %has.4
  br label %end
end:
  ret void
}
define internal float @sf_fold_lanes(ptr %rotated, i64 %start, i64 %count) #1 {
entry:
  %own = alloca [2048 x float], align 64
  %straight = icmp eq i64 %start, 0
  br i1 %straight, label %fold, label %rotate
rotate:
  %j = phi i64 [ 0, %entry ], [ %j.next, %rotate ]
  %p.from = getelementptr float, ptr %rotated, i64 %j
  %v = load float, ptr %p.from
  %sum = add i64 %j, %start
  %lane = and i64 %sum, 2047
  %p.to = getelementptr float, ptr %own, i64 %lane
  store float %v, ptr %p.to
  %j.next = add i64 %j, 1
  %all = icmp eq i64 %j.next, 2048
  br i1 %all, label %fold, label %rotate
fold:
  %lanes = phi ptr [ %rotated, %entry ], [ %own, %rotate ]
  br label %level
level:
  %size = phi i64 [ %count, %fold ], [ %d, %pairs ]
  %d = lshr i64 %size, 1
  %wide = icmp uge i64 %d, 8
  br i1 %wide, label %pairs, label %within
pairs:
  %l = phi i64 [ 0, %level ], [ %l.next, %pairs ]
  %p.low = getelementptr float, ptr %lanes, i64 %l
  %p.high = getelementptr float, ptr %p.low, i64 %d
  %low = load <8 x float>, ptr %p.low, align 32
  %high = load <8 x float>, ptr %p.high, align 32
  %both = fadd <8 x float> %low, %high
  store <8 x float> %both, ptr %p.low, align 32
  %l.next = add i64 %l, 8
  %more = icmp ult i64 %l.next, %d
  br i1 %more, label %pairs, label %level
within:
  %x.8 = load <8 x float>, ptr %lanes, align 32
  %y.4 = shufflevector <8 x float> %x.8, <8 x float> poison, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 0, i32 1, i32 2, i32 3>
  %x.4 = fadd <8 x float> %x.8, %y.4
  %y.2 = shufflevector <8 x float> %x.4, <8 x float> poison, <8 x i32> <i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 0, i32 1>
  %x.2 = fadd <8 x float> %x.4, %y.2
  %y.1 = shufflevector <8 x float> %x.2, <8 x float> poison, <8 x i32> <i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 0>
  %x.1 = fadd <8 x float> %x.2, %y.1
  %r = extractelement <8 x float> %x.1, i32 0
  ret float %r
}
define internal void @sf_zero_lanes(ptr %lanes, i64 %count) #1 {
entry:
  br label %loop
loop:
  %l = phi i64 [ 0, %entry ], [ %l.next, %loop ]
  %p = getelementptr float, ptr %lanes, i64 %l
  store <8 x float> zeroinitializer, ptr %p, align 32
  %l.next = add i64 %l, 8
  %more = icmp ult i64 %l.next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}
declare <8 x float> @llvm.fabs.v8f32(<8 x float>)
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare float @llvm.fabs.f32(float)
declare float @llvm.minimum.f32(float, float)
declare float @llvm.sqrt.f32(float)
declare i64 @llvm.ctlz.i64(i64, i1)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64-v3" "target-features"="+avx2,+f16c,+fma" "prefer-vector-width"="256" }
attributes #1 = { noinline nounwind "no-builtins" "target-cpu"="x86-64-v3" "target-features"="+avx2,+f16c,+fma" "prefer-vector-width"="256" }
!0 = !{i32 1}
