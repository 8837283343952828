; stepfuse: step @domains, 8 lanes
; signature 0: @grad=f16 @weight=f32 @copy=bf16 @mask=i32
; signature 1: @grad=f32 @weight=f32 @copy=bf16 @mask=i32

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
  %lanes.r0 = alloca [2048 x float], align 64
  %lanes.tail.r0 = alloca [8 x float], align 64
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
  %slot.2 = getelementptr [4 x i8], ptr %slot.1, i64 %c
  store float 0x0000000000000000, ptr %slot.2, align 1
  %slot.3 = getelementptr [8 x i8], ptr %slots.1, i64 1
  %slot.4 = load ptr, ptr %slot.3
  %slot.5 = getelementptr [4 x i8], ptr %slot.4, i64 %c
  store float 0xFFF0000000000000, ptr %slot.5, align 1
  %slot.6 = getelementptr [8 x i8], ptr %slots.1, i64 2
  %slot.7 = load ptr, ptr %slot.6
  %slot.8 = getelementptr [1 x i8], ptr %slot.7, i64 %c
  %byte = zext i1 false to i8
  store i8 %byte, ptr %slot.8, align 1
  br label %chunk.next
chunk.present:
  switch i64 %signature.2, label %signature.0 [ i64 1, label %signature.1.1 ]
signature.0:
  %vectors = lshr i64 %length.2, 3
  %tail = and i64 %length.2, 7
  %grad = getelementptr [32 x i8], ptr %pointers.1, i64 %tensor.2
  %grad.1 = getelementptr [8 x i8], ptr %grad, i64 0
  %grad.2 = load ptr, ptr %grad.1
  %grad.3 = getelementptr [2 x i8], ptr %grad.2, i64 %begin.2
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
  call void @sf_zero_lanes(ptr %lanes.r0, i64 %lane.count.5)
  br label %body
body:
  br label %pass
pass:
  %is_tail = phi i1 [ false, %body ], [ true, %tail.in ]
  %count = phi i64 [ %vectors, %body ], [ 1, %tail.in ]
  %p = phi ptr [ %grad.3, %body ], [ %tail.0, %tail.in ]
  %lanes = phi ptr [ %lanes.r0, %body ], [ %lanes.tail.r0, %tail.in ]
  %tensor_max = phi <8 x float> [ <float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000>, %body ], [ %tensor_max.after, %tail.in ]
  %bad = phi <8 x i32> [ <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>, %body ], [ %bad.after, %tail.in ]
  %whole = xor i1 %is_tail, true
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %pass.after, label %loop
loop:
  %i = phi i64 [ 0, %pass ], [ %i.next, %loop.end ]
  %tensor_max.1 = phi <8 x float> [ %tensor_max, %pass ], [ %tensor_max.next, %loop.end ]
  %bad.1 = phi <8 x i32> [ %bad, %pass ], [ %bad.next, %loop.end ]
  %at = getelementptr [16 x i8], ptr %p, i64 %i
  %ahead = getelementptr i8, ptr %at, i64 8192
  call void @llvm.prefetch.p0(ptr %ahead, i32 0, i32 3, i32 1)
  ; %raw = load @grad : [@grad]
  %raw = load <8 x i16>, ptr %at, align 1
  ; %g = cast %raw : [f32]
  %g = bitcast <8 x i16> %raw to <8 x half>
  %g.1 = fpext <8 x half> %g to <8 x float>
  ; %sq = mul %g, %g : [f32]
  %sq = fmul <8 x float> %g.1, %g.1
  ; %size = abs %g : [f32]
  %size = call <8 x float> @llvm.fabs.v8f32(<8 x float> %g.1)
  ; %finite = isfinite %g : [bool]
  %finite = call <8 x float> @llvm.fabs.v8f32(<8 x float> %g.1)
  %finite.1 = fcmp olt <8 x float> %finite, <float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000>
  ; %bad_element = not %finite : [bool]
  %bad_element = xor <8 x i1> %finite.1, <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true>
  ; %sum = reduce_add %sq : {f32}
  %lane = shl i64 %i, 3
  %lane.1 = and i64 %lane, 2047
  %lane.2 = getelementptr [4 x i8], ptr %lanes, i64 %lane.1
  %lane.3 = load <8 x float>, ptr %lane.2, align 32
  %lane.4 = fadd <8 x float> %lane.3, %sq
  store <8 x float> %lane.4, ptr %lane.2, align 32
  ; %tensor_max = reduce_max %size : <f32>
  %combined = call <8 x float> @llvm.maximum.v8f32(<8 x float> %tensor_max.1, <8 x float> %size)
  %tensor_max.next = bitcast <8 x float> %combined to <8 x float>
  ; %bad = reduce_any %bad_element : bool
  %seen = sext <8 x i1> %bad_element to <8 x i32>
  %combined.1 = or <8 x i32> %bad.1, %seen
  %bad.next = bitcast <8 x i32> %combined.1 to <8 x i32>
  br label %loop.end
loop.end:
  %i.next = add nuw i64 %i, 1
  %more.1 = icmp ult i64 %i.next, %count
  br i1 %more.1, label %loop, label %pass.after
pass.after:
  %tensor_max.after = phi <8 x float> [ %tensor_max, %pass ], [ %tensor_max.next, %loop.end ]
  %bad.after = phi <8 x i32> [ %bad, %pass ], [ %bad.next, %loop.end ]
  br i1 %is_tail, label %tail.out, label %pass.whole.end
pass.whole.end:
  %tail.none = icmp eq i64 %tail, 0
  br i1 %tail.none, label %body.done, label %tail.in
tail.in:
  %rest = getelementptr [16 x i8], ptr %grad.3, i64 %vectors
  %bytes = mul i64 %tail, 2
  call void @sf_copy(ptr %tail.0, ptr %rest, i64 %bytes)
  %walked = mul i64 %vectors, 8
  %lane.5 = and i64 %walked, 2047
  %lane.6 = getelementptr [4 x i8], ptr %lanes.r0, i64 %lane.5
  %lanes.1 = load <8 x float>, ptr %lane.6, align 1
  store <8 x float> %lanes.1, ptr %lanes.tail.r0, align 1
  br label %pass
tail.out:
  %tail.count = trunc i64 %tail to i32
  %tail.count.1 = insertelement <8 x i32> poison, i32 %tail.count, i32 0
  %tail.count.2 = shufflevector <8 x i32> %tail.count.1, <8 x i32> poison, <8 x i32> zeroinitializer
  %active = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %tail.count.2
  %walked.1 = mul i64 %vectors, 8
  %lane.7 = and i64 %walked.1, 2047
  %lane.8 = getelementptr [4 x i8], ptr %lanes.r0, i64 %lane.7
  %lanes.2 = load <8 x float>, ptr %lanes.tail.r0, align 1
  %lanes.3 = load <8 x float>, ptr %lane.8, align 1
  %merged = select <8 x i1> %active, <8 x float> %lanes.2, <8 x float> %lanes.3
  store <8 x float> %merged, ptr %lane.8, align 1
  %merged.1 = select <8 x i1> %active, <8 x float> %tensor_max.after, <8 x float> %tensor_max
  %merged.2 = select <8 x i1> %active, <8 x i32> %bad.after, <8 x i32> %bad
  br label %body.done
body.done:
  %tensor_max.2 = phi <8 x float> [ %tensor_max.after, %pass.whole.end ], [ %merged.1, %tail.out ]
  %bad.2 = phi <8 x i32> [ %bad.after, %pass.whole.end ], [ %merged.2, %tail.out ]
  %sum = call float @sf_fold_lanes(ptr %lanes.r0, i64 %lane.start, i64 %lane.count.5)
  %slot.9 = getelementptr [8 x i8], ptr %slots.1, i64 0
  %slot.10 = load ptr, ptr %slot.9
  %slot.11 = getelementptr [4 x i8], ptr %slot.10, i64 %c
  store float %sum, ptr %slot.11, align 1
  %upper = shufflevector <8 x float> %tensor_max.2, <8 x float> poison, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 0, i32 1, i32 2, i32 3>
  %tensor_max.3 = call <8 x float> @llvm.maximum.v8f32(<8 x float> %tensor_max.2, <8 x float> %upper)
  %upper.1 = shufflevector <8 x float> %tensor_max.3, <8 x float> poison, <8 x i32> <i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 0, i32 1>
  %tensor_max.4 = call <8 x float> @llvm.maximum.v8f32(<8 x float> %tensor_max.3, <8 x float> %upper.1)
  %upper.2 = shufflevector <8 x float> %tensor_max.4, <8 x float> poison, <8 x i32> <i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 0>
  %tensor_max.5 = call <8 x float> @llvm.maximum.v8f32(<8 x float> %tensor_max.4, <8 x float> %upper.2)
  %tensor_max.6 = extractelement <8 x float> %tensor_max.5, i32 0
  %slot.12 = getelementptr [8 x i8], ptr %slots.1, i64 1
  %slot.13 = load ptr, ptr %slot.12
  %slot.14 = getelementptr [4 x i8], ptr %slot.13, i64 %c
  store float %tensor_max.6, ptr %slot.14, align 1
  %upper.3 = shufflevector <8 x i32> %bad.2, <8 x i32> poison, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 0, i32 1, i32 2, i32 3>
  %bad.3 = or <8 x i32> %bad.2, %upper.3
  %upper.4 = shufflevector <8 x i32> %bad.3, <8 x i32> poison, <8 x i32> <i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 0, i32 1>
  %bad.4 = or <8 x i32> %bad.3, %upper.4
  %upper.5 = shufflevector <8 x i32> %bad.4, <8 x i32> poison, <8 x i32> <i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 0>
  %bad.5 = or <8 x i32> %bad.4, %upper.5
  %bad.6 = extractelement <8 x i32> %bad.5, i32 0
  %bad.7 = icmp ne i32 %bad.6, 0
  %slot.15 = getelementptr [8 x i8], ptr %slots.1, i64 2
  %slot.16 = load ptr, ptr %slot.15
  %slot.17 = getelementptr [1 x i8], ptr %slot.16, i64 %c
  %byte.1 = zext i1 %bad.7 to i8
  store i8 %byte.1, ptr %slot.17, align 1
  br label %chunk.next
signature.1.1:
  %vectors.1 = lshr i64 %length.2, 3
  %tail.1 = and i64 %length.2, 7
  %grad.4 = getelementptr [32 x i8], ptr %pointers.1, i64 %tensor.2
  %grad.5 = getelementptr [8 x i8], ptr %grad.4, i64 0
  %grad.6 = load ptr, ptr %grad.5
  %grad.7 = getelementptr [4 x i8], ptr %grad.6, i64 %begin.2
  %lane.start.1 = and i64 %position, 2047
  %lane.count.6 = sub i64 %length.2, 1
  %lane.count.7 = or i64 %lane.count.6, 7
  %lane.count.8 = call i64 @llvm.ctlz.i64(i64 %lane.count.7, i1 false)
  %lane.count.9 = sub i64 64, %lane.count.8
  %lane.count.10 = shl i64 1, %lane.count.9
  %lane.short.3 = icmp ult i64 %lane.count.10, 2048
  %lane.short.4 = icmp eq i64 %lane.start.1, 0
  %lane.short.5 = and i1 %lane.short.3, %lane.short.4
  %lane.count.11 = select i1 %lane.short.5, i64 %lane.count.10, i64 2048
  call void @sf_zero_lanes(ptr %lanes.r0, i64 %lane.count.11)
  br label %body.1
body.1:
  br label %pass.1
pass.1:
  %is_tail.1 = phi i1 [ false, %body.1 ], [ true, %tail.in.1 ]
  %count.1 = phi i64 [ %vectors.1, %body.1 ], [ 1, %tail.in.1 ]
  %p.1 = phi ptr [ %grad.7, %body.1 ], [ %tail.0, %tail.in.1 ]
  %lanes.4 = phi ptr [ %lanes.r0, %body.1 ], [ %lanes.tail.r0, %tail.in.1 ]
  %tensor_max.7 = phi <8 x float> [ <float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000>, %body.1 ], [ %tensor_max.after.1, %tail.in.1 ]
  %bad.8 = phi <8 x i32> [ <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>, %body.1 ], [ %bad.after.1, %tail.in.1 ]
  %whole.1 = xor i1 %is_tail.1, true
  %empty.1 = icmp eq i64 %count.1, 0
  br i1 %empty.1, label %pass.after.1, label %loop.1
loop.1:
  %i.1 = phi i64 [ 0, %pass.1 ], [ %i.next.1, %loop.end.1 ]
  %tensor_max.8 = phi <8 x float> [ %tensor_max.7, %pass.1 ], [ %tensor_max.next.1, %loop.end.1 ]
  %bad.9 = phi <8 x i32> [ %bad.8, %pass.1 ], [ %bad.next.1, %loop.end.1 ]
  %at.1 = getelementptr [32 x i8], ptr %p.1, i64 %i.1
  %ahead.1 = getelementptr i8, ptr %at.1, i64 8192
  call void @llvm.prefetch.p0(ptr %ahead.1, i32 0, i32 3, i32 1)
  ; %raw = load @grad : [@grad]
  %raw.1 = load <8 x float>, ptr %at.1, align 1
  ; %g = cast %raw : [f32]
  ; %sq = mul %g, %g : [f32]
  %sq.1 = fmul <8 x float> %raw.1, %raw.1
  ; %size = abs %g : [f32]
  %size.1 = call <8 x float> @llvm.fabs.v8f32(<8 x float> %raw.1)
  ; %finite = isfinite %g : [bool]
  %finite.2 = call <8 x float> @llvm.fabs.v8f32(<8 x float> %raw.1)
  %finite.3 = fcmp olt <8 x float> %finite.2, <float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000>
  ; %bad_element = not %finite : [bool]
  %bad_element.1 = xor <8 x i1> %finite.3, <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true>
  ; %sum = reduce_add %sq : {f32}
  %lane.9 = shl i64 %i.1, 3
  %lane.10 = and i64 %lane.9, 2047
  %lane.11 = getelementptr [4 x i8], ptr %lanes.4, i64 %lane.10
  %lane.12 = load <8 x float>, ptr %lane.11, align 32
  %lane.13 = fadd <8 x float> %lane.12, %sq.1
  store <8 x float> %lane.13, ptr %lane.11, align 32
  ; %tensor_max = reduce_max %size : <f32>
  %combined.2 = call <8 x float> @llvm.maximum.v8f32(<8 x float> %tensor_max.8, <8 x float> %size.1)
  %tensor_max.next.1 = bitcast <8 x float> %combined.2 to <8 x float>
  ; %bad = reduce_any %bad_element : bool
  %seen.1 = sext <8 x i1> %bad_element.1 to <8 x i32>
  %combined.3 = or <8 x i32> %bad.9, %seen.1
  %bad.next.1 = bitcast <8 x i32> %combined.3 to <8 x i32>
  br label %loop.end.1
loop.end.1:
  %i.next.1 = add nuw i64 %i.1, 1
  %more.2 = icmp ult i64 %i.next.1, %count.1
  br i1 %more.2, label %loop.1, label %pass.after.1
pass.after.1:
  %tensor_max.after.1 = phi <8 x float> [ %tensor_max.7, %pass.1 ], [ %tensor_max.next.1, %loop.end.1 ]
  %bad.after.1 = phi <8 x i32> [ %bad.8, %pass.1 ], [ %bad.next.1, %loop.end.1 ]
  br i1 %is_tail.1, label %tail.out.1, label %pass.whole.end.1
pass.whole.end.1:
  %tail.none.1 = icmp eq i64 %tail.1, 0
  br i1 %tail.none.1, label %body.done.1, label %tail.in.1
tail.in.1:
  %rest.1 = getelementptr [32 x i8], ptr %grad.7, i64 %vectors.1
  %bytes.1 = mul i64 %tail.1, 4
  call void @sf_copy(ptr %tail.0, ptr %rest.1, i64 %bytes.1)
  %walked.2 = mul i64 %vectors.1, 8
  %lane.14 = and i64 %walked.2, 2047
  %lane.15 = getelementptr [4 x i8], ptr %lanes.r0, i64 %lane.14
  %lanes.5 = load <8 x float>, ptr %lane.15, align 1
  store <8 x float> %lanes.5, ptr %lanes.tail.r0, align 1
  br label %pass.1
tail.out.1:
  %tail.count.3 = trunc i64 %tail.1 to i32
  %tail.count.4 = insertelement <8 x i32> poison, i32 %tail.count.3, i32 0
  %tail.count.5 = shufflevector <8 x i32> %tail.count.4, <8 x i32> poison, <8 x i32> zeroinitializer
  %active.1 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %tail.count.5
  %walked.3 = mul i64 %vectors.1, 8
  %lane.16 = and i64 %walked.3, 2047
  %lane.17 = getelementptr [4 x i8], ptr %lanes.r0, i64 %lane.16
  %lanes.6 = load <8 x float>, ptr %lanes.tail.r0, align 1
  %lanes.7 = load <8 x float>, ptr %lane.17, align 1
  %merged.3 = select <8 x i1> %active.1, <8 x float> %lanes.6, <8 x float> %lanes.7
  store <8 x float> %merged.3, ptr %lane.17, align 1
  %merged.4 = select <8 x i1> %active.1, <8 x float> %tensor_max.after.1, <8 x float> %tensor_max.7
  %merged.5 = select <8 x i1> %active.1, <8 x i32> %bad.after.1, <8 x i32> %bad.8
  br label %body.done.1
body.done.1:
  %tensor_max.9 = phi <8 x float> [ %tensor_max.after.1, %pass.whole.end.1 ], [ %merged.4, %tail.out.1 ]
  %bad.10 = phi <8 x i32> [ %bad.after.1, %pass.whole.end.1 ], [ %merged.5, %tail.out.1 ]
  %sum.1 = call float @sf_fold_lanes(ptr %lanes.r0, i64 %lane.start.1, i64 %lane.count.11)
  %slot.18 = getelementptr [8 x i8], ptr %slots.1, i64 0
  %slot.19 = load ptr, ptr %slot.18
  %slot.20 = getelementptr [4 x i8], ptr %slot.19, i64 %c
  store float %sum.1, ptr %slot.20, align 1
  %upper.6 = shufflevector <8 x float> %tensor_max.9, <8 x float> poison, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 0, i32 1, i32 2, i32 3>
  %tensor_max.10 = call <8 x float> @llvm.maximum.v8f32(<8 x float> %tensor_max.9, <8 x float> %upper.6)
  %upper.7 = shufflevector <8 x float> %tensor_max.10, <8 x float> poison, <8 x i32> <i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 0, i32 1>
  %tensor_max.11 = call <8 x float> @llvm.maximum.v8f32(<8 x float> %tensor_max.10, <8 x float> %upper.7)
  %upper.8 = shufflevector <8 x float> %tensor_max.11, <8 x float> poison, <8 x i32> <i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 0>
  %tensor_max.12 = call <8 x float> @llvm.maximum.v8f32(<8 x float> %tensor_max.11, <8 x float> %upper.8)
  %tensor_max.13 = extractelement <8 x float> %tensor_max.12, i32 0
  %slot.21 = getelementptr [8 x i8], ptr %slots.1, i64 1
  %slot.22 = load ptr, ptr %slot.21
  %slot.23 = getelementptr [4 x i8], ptr %slot.22, i64 %c
  store float %tensor_max.13, ptr %slot.23, align 1
  %upper.9 = shufflevector <8 x i32> %bad.10, <8 x i32> poison, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 0, i32 1, i32 2, i32 3>
  %bad.11 = or <8 x i32> %bad.10, %upper.9
  %upper.10 = shufflevector <8 x i32> %bad.11, <8 x i32> poison, <8 x i32> <i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 0, i32 1>
  %bad.12 = or <8 x i32> %bad.11, %upper.10
  %upper.11 = shufflevector <8 x i32> %bad.12, <8 x i32> poison, <8 x i32> <i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 0>
  %bad.13 = or <8 x i32> %bad.12, %upper.11
  %bad.14 = extractelement <8 x i32> %bad.13, i32 0
  %bad.15 = icmp ne i32 %bad.14, 0
  %slot.24 = getelementptr [8 x i8], ptr %slots.1, i64 2
  %slot.25 = load ptr, ptr %slot.24
  %slot.26 = getelementptr [1 x i8], ptr %slot.25, i64 %c
  %byte.2 = zext i1 %bad.15 to i8
  store i8 %byte.2, ptr %slot.26, align 1
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
  ; arg %limit : f32 = 10
  %limit = getelementptr [8 x i8], ptr %step_args.1, i64 0
  %limit.1 = load float, ptr %limit, align 1
  ; %bad = reduce_any %bad_element : bool
  %bad = getelementptr [8 x i8], ptr %results.1, i64 2
  %bad.1 = load ptr, ptr %bad
  %bad.2 = getelementptr [1 x i8], ptr %bad.1, i64 0
  %bad.3 = load i8, ptr %bad.2, align 1
  %bad.4 = icmp ne i8 %bad.3, 0
  ; %none = const 0 : i32
  ; %good = not %bad : bool
  %good = xor i1 %bad.4, true
  %limit.2 = getelementptr [8 x i8], ptr %scalars.1, i64 1
  store i64 0, ptr %limit.2
  store float %limit.1, ptr %limit.2, align 1
  %bad.5 = getelementptr [8 x i8], ptr %scalars.1, i64 12
  store i64 0, ptr %bad.5
  %byte = zext i1 %bad.4 to i8
  store i8 %byte, ptr %bad.5, align 1
  %good.1 = getelementptr [8 x i8], ptr %scalars.1, i64 19
  store i64 0, ptr %good.1
  %byte.1 = zext i1 %good to i8
  store i8 %byte.1, ptr %good.1, align 1
  ret void
}

define void @sf_phase_1(ptr noalias readonly %ctx, i64 %begin, i64 %end) #0 {
entry:
  %group.of = alloca i64, align 8
  %lr.of = alloca double, align 8
  %sum.of = alloca float, align 8
  %group_norm.of = alloca float, align 8
  %scale.of = alloca float, align 8
  %lr32.of = alloca float, align 8
  %rate.of = alloca float, align 8
  %per.of = alloca float, align 8
  %tensor.of = alloca i64, align 8
  %tensor_max.of = alloca float, align 8
  %calm.of = alloca i1, align 8
  %tail.0 = alloca [8 x float], align 64
  %tail.1 = alloca [8 x float], align 64
  %tail.2 = alloca [8 x float], align 64
  %tail.3 = alloca [8 x float], align 64
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
  %limit = getelementptr [8 x i8], ptr %scalars.1, i64 1
  %limit.1 = load float, ptr %limit, align 1
  %bad = getelementptr [8 x i8], ptr %scalars.1, i64 12
  %bad.1 = load i8, ptr %bad, align 1
  %bad.2 = icmp ne i8 %bad.1, 0
  %good = getelementptr [8 x i8], ptr %scalars.1, i64 19
  %good.1 = load i8, ptr %good, align 1
  %good.2 = icmp ne i8 %good.1, 0
  br label %start
start:
  store i64 -1, ptr %group.of
  store i64 -1, ptr %tensor.of
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
  ; arg %lr : {f64} = 0.01
  %lr = getelementptr [8 x i8], ptr %group_args.1, i64 %group.2
  %lr.1 = getelementptr [8 x i8], ptr %lr, i64 0
  %lr.2 = load double, ptr %lr.1, align 1
  ; %sum = reduce_add %sq : {f32}
  %sum = getelementptr [8 x i8], ptr %results.1, i64 0
  %sum.1 = load ptr, ptr %sum
  %sum.2 = getelementptr [4 x i8], ptr %sum.1, i64 %group.2
  %sum.3 = load float, ptr %sum.2, align 1
  ; %group_norm = sqrt %sum : {f32}
  %group_norm = call float @llvm.sqrt.f32(float %sum.3)
  ; %scale = read @lr_scale : {f32}
  %scale = getelementptr [8 x i8], ptr %states.1, i64 1
  %scale.1 = load ptr, ptr %scale
  %scale.2 = getelementptr [4 x i8], ptr %scale.1, i64 %group.2
  %scale.3 = load float, ptr %scale.2, align 1
  ; %lr32 = cast %lr : {f32}
  %lr32 = fptrunc double %lr.2 to float
  ; %rate = mul %lr32, %scale : {f32}
  %rate = fmul float %lr32, %scale.3
  ; %per = div %rate, %group_norm : {f32}
  %per = fdiv float %rate, %group_norm
  store double %lr.2, ptr %lr.of
  store float %sum.3, ptr %sum.of
  store float %group_norm, ptr %group_norm.of
  store float %scale.3, ptr %scale.of
  store float %lr32, ptr %lr32.of
  store float %rate, ptr %rate.of
  store float %per, ptr %per.of
  br label %group.ready
group.ready:
  %lr.3 = load double, ptr %lr.of
  %sum.4 = load float, ptr %sum.of
  %group_norm.1 = load float, ptr %group_norm.of
  %scale.4 = load float, ptr %scale.of
  %lr32.1 = load float, ptr %lr32.of
  %rate.1 = load float, ptr %rate.of
  %per.1 = load float, ptr %per.of
  %last.1 = load i64, ptr %tensor.of
  %same.1 = icmp eq i64 %last.1, %tensor.2
  br i1 %same.1, label %tensor.ready, label %tensor.new
tensor.new:
  store i64 %tensor.2, ptr %tensor.of
  ; %tensor_max = reduce_max %size : <f32>
  %tensor_max = getelementptr [8 x i8], ptr %results.1, i64 1
  %tensor_max.1 = load ptr, ptr %tensor_max
  %tensor_max.2 = getelementptr [4 x i8], ptr %tensor_max.1, i64 %tensor.2
  %tensor_max.3 = load float, ptr %tensor_max.2, align 1
  ; %calm = lt %tensor_max, %limit : <bool>
  %calm = fcmp olt float %tensor_max.3, %limit.1
  store float %tensor_max.3, ptr %tensor_max.of
  store i1 %calm, ptr %calm.of
  br label %tensor.ready
tensor.ready:
  %tensor_max.4 = load float, ptr %tensor_max.of
  %calm.1 = load i1, ptr %calm.of
  br i1 %calm.1, label %guarded, label %otherwise
guarded:
  switch i64 %signature.2, label %signature.0 [ i64 1, label %signature.1.1 ]
signature.0:
  %vectors = lshr i64 %length.2, 3
  %tail = and i64 %length.2, 7
  %calm.2 = insertelement <8 x i1> poison, i1 %calm.1, i32 0
  %calm.3 = shufflevector <8 x i1> %calm.2, <8 x i1> poison, <8 x i32> zeroinitializer
  %good.3 = insertelement <8 x i1> poison, i1 %good.2, i32 0
  %good.4 = shufflevector <8 x i1> %good.3, <8 x i1> poison, <8 x i32> zeroinitializer
  %per.2 = insertelement <8 x float> poison, float %per.1, i32 0
  %per.3 = shufflevector <8 x float> %per.2, <8 x float> poison, <8 x i32> zeroinitializer
  %grad = getelementptr [32 x i8], ptr %pointers.1, i64 %tensor.2
  %grad.1 = getelementptr [8 x i8], ptr %grad, i64 0
  %grad.2 = load ptr, ptr %grad.1
  %grad.3 = getelementptr [2 x i8], ptr %grad.2, i64 %begin.2
  %mask = getelementptr [32 x i8], ptr %pointers.1, i64 %tensor.2
  %mask.1 = getelementptr [8 x i8], ptr %mask, i64 3
  %mask.2 = load ptr, ptr %mask.1
  %mask.3 = getelementptr [4 x i8], ptr %mask.2, i64 %begin.2
  %weight = getelementptr [32 x i8], ptr %pointers.1, i64 %tensor.2
  %weight.1 = getelementptr [8 x i8], ptr %weight, i64 1
  %weight.2 = load ptr, ptr %weight.1
  %weight.3 = getelementptr [4 x i8], ptr %weight.2, i64 %begin.2
  %copy = getelementptr [32 x i8], ptr %pointers.1, i64 %tensor.2
  %copy.1 = getelementptr [8 x i8], ptr %copy, i64 2
  %copy.2 = load ptr, ptr %copy.1
  %copy.3 = getelementptr [2 x i8], ptr %copy.2, i64 %begin.2
  %address = ptrtoint ptr %copy.3 to i64
  %address.1 = and i64 %address, 15
  %aligned = icmp eq i64 %address.1, 0
  %streams = and i1 %aligned, %is_large
  br label %body
body:
  br label %pass
pass:
  %is_tail = phi i1 [ false, %body ], [ true, %tail.in ]
  %count = phi i64 [ %vectors, %body ], [ 1, %tail.in ]
  %p = phi ptr [ %grad.3, %body ], [ %tail.0, %tail.in ]
  %p.1 = phi ptr [ %mask.3, %body ], [ %tail.1, %tail.in ]
  %p.2 = phi ptr [ %weight.3, %body ], [ %tail.2, %tail.in ]
  %p.3 = phi ptr [ %copy.3, %body ], [ %tail.3, %tail.in ]
  %whole = xor i1 %is_tail, true
  %streams.1 = and i1 %streams, %whole
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %pass.after, label %loop
loop:
  %i = phi i64 [ 0, %pass ], [ %i.next, %loop.end ]
  %at = getelementptr [16 x i8], ptr %p, i64 %i
  %at.1 = getelementptr [32 x i8], ptr %p.1, i64 %i
  %at.2 = getelementptr [32 x i8], ptr %p.2, i64 %i
  %at.3 = getelementptr [16 x i8], ptr %p.3, i64 %i
  ; %raw = load @grad : [@grad]
  %raw = load <8 x i16>, ptr %at, align 1
  ; %g = cast %raw : [f32]
  %g = bitcast <8 x i16> %raw to <8 x half>
  %g.1 = fpext <8 x half> %g to <8 x float>
  ; %mask = load @mask : [i32]
  %mask.4 = load <8 x i32>, ptr %at.1, align 1
  ; %off = eq %mask, %none : [bool]
  %off = icmp eq <8 x i32> %mask.4, <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  ; %on = not %off : [bool]
  %on = xor <8 x i1> %off, <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true>
  ; %chosen = and %on, %calm : [bool]
  %chosen = and <8 x i1> %on, %calm.3
  ; %store = and %chosen, %good : [bool]
  %store = and <8 x i1> %chosen, %good.4
  ; %d = mul %g, %per : [f32]
  %d = fmul <8 x float> %g.1, %per.3
  ; %w0 = load @weight : [f32]
  %w0 = load <8 x float>, ptr %at.2, align 1
  ; %w1 = sub %w0, %d : [f32]
  %w1 = fsub <8 x float> %w0, %d
  ; %w16 = cast %w1 : [bf16]
  %w16 = bitcast <8 x float> %w1 to <8 x i32>
  %w16.1 = lshr <8 x i32> %w16, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
  %w16.2 = and <8 x i32> %w16.1, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
  %w16.3 = add <8 x i32> %w16.2, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
  %w16.4 = add <8 x i32> %w16, %w16.3
  %w16.5 = lshr <8 x i32> %w16.4, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
  %w16.6 = fcmp uno <8 x float> %w1, %w1
  %w16.7 = select <8 x i1> %w16.6, <8 x i32> <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>, <8 x i32> %w16.5
  %w16.8 = trunc <8 x i32> %w16.7 to <8 x i16>
  ; store @weight, %w1 if %store
  %old = load <8 x float>, ptr %at.2, align 1
  %new = select <8 x i1> %store, <8 x float> %w1, <8 x float> %old
  store <8 x float> %new, ptr %at.2, align 1
  ; store @copy, %w16 if %calm
  br i1 %streams.1, label %past.caches, label %through.caches
past.caches:
  store <8 x i16> %w16.8, ptr %at.3, align 16, !nontemporal !0
  br label %stored
through.caches:
  store <8 x i16> %w16.8, ptr %at.3, align 1
  br label %stored
stored:
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
  %rest = getelementptr [16 x i8], ptr %grad.3, i64 %vectors
  %bytes = mul i64 %tail, 2
  call void @sf_copy(ptr %tail.0, ptr %rest, i64 %bytes)
  %rest.1 = getelementptr [32 x i8], ptr %mask.3, i64 %vectors
  %bytes.1 = mul i64 %tail, 4
  call void @sf_copy(ptr %tail.1, ptr %rest.1, i64 %bytes.1)
  %rest.2 = getelementptr [32 x i8], ptr %weight.3, i64 %vectors
  %bytes.2 = mul i64 %tail, 4
  call void @sf_copy(ptr %tail.2, ptr %rest.2, i64 %bytes.2)
  br label %pass
tail.out:
  %rest.3 = getelementptr [32 x i8], ptr %weight.3, i64 %vectors
  %bytes.3 = mul i64 %tail, 4
  call void @sf_copy(ptr %rest.3, ptr %tail.2, i64 %bytes.3)
  %rest.4 = getelementptr [16 x i8], ptr %copy.3, i64 %vectors
  %bytes.4 = mul i64 %tail, 2
  call void @sf_copy(ptr %rest.4, ptr %tail.3, i64 %bytes.4)
  br label %body.done
body.done:
  br label %chunk.next
signature.1.1:
  %vectors.1 = lshr i64 %length.2, 3
  %tail.4 = and i64 %length.2, 7
  %calm.4 = insertelement <8 x i1> poison, i1 %calm.1, i32 0
  %calm.5 = shufflevector <8 x i1> %calm.4, <8 x i1> poison, <8 x i32> zeroinitializer
  %good.5 = insertelement <8 x i1> poison, i1 %good.2, i32 0
  %good.6 = shufflevector <8 x i1> %good.5, <8 x i1> poison, <8 x i32> zeroinitializer
  %per.4 = insertelement <8 x float> poison, float %per.1, i32 0
  %per.5 = shufflevector <8 x float> %per.4, <8 x float> poison, <8 x i32> zeroinitializer
  %grad.4 = getelementptr [32 x i8], ptr %pointers.1, i64 %tensor.2
  %grad.5 = getelementptr [8 x i8], ptr %grad.4, i64 0
  %grad.6 = load ptr, ptr %grad.5
  %grad.7 = getelementptr [4 x i8], ptr %grad.6, i64 %begin.2
  %mask.5 = getelementptr [32 x i8], ptr %pointers.1, i64 %tensor.2
  %mask.6 = getelementptr [8 x i8], ptr %mask.5, i64 3
  %mask.7 = load ptr, ptr %mask.6
  %mask.8 = getelementptr [4 x i8], ptr %mask.7, i64 %begin.2
  %weight.4 = getelementptr [32 x i8], ptr %pointers.1, i64 %tensor.2
  %weight.5 = getelementptr [8 x i8], ptr %weight.4, i64 1
  %weight.6 = load ptr, ptr %weight.5
  %weight.7 = getelementptr [4 x i8], ptr %weight.6, i64 %begin.2
  %copy.4 = getelementptr [32 x i8], ptr %pointers.1, i64 %tensor.2
  %copy.5 = getelementptr [8 x i8], ptr %copy.4, i64 2
  %copy.6 = load ptr, ptr %copy.5
  %copy.7 = getelementptr [2 x i8], ptr %copy.6, i64 %begin.2
  %address.2 = ptrtoint ptr %copy.7 to i64
  %address.3 = and i64 %address.2, 15
  %aligned.1 = icmp eq i64 %address.3, 0
  %streams.2 = and i1 %aligned.1, %is_large
  br label %body.1
body.1:
  br label %pass.1
pass.1:
  %is_tail.1 = phi i1 [ false, %body.1 ], [ true, %tail.in.1 ]
  %count.1 = phi i64 [ %vectors.1, %body.1 ], [ 1, %tail.in.1 ]
  %p.4 = phi ptr [ %grad.7, %body.1 ], [ %tail.0, %tail.in.1 ]
  %p.5 = phi ptr [ %mask.8, %body.1 ], [ %tail.1, %tail.in.1 ]
  %p.6 = phi ptr [ %weight.7, %body.1 ], [ %tail.2, %tail.in.1 ]
  %p.7 = phi ptr [ %copy.7, %body.1 ], [ %tail.3, %tail.in.1 ]
  %whole.1 = xor i1 %is_tail.1, true
  %streams.3 = and i1 %streams.2, %whole.1
  %empty.1 = icmp eq i64 %count.1, 0
  br i1 %empty.1, label %pass.after.1, label %loop.1
loop.1:
  %i.1 = phi i64 [ 0, %pass.1 ], [ %i.next.1, %loop.end.1 ]
  %at.4 = getelementptr [32 x i8], ptr %p.4, i64 %i.1
  %at.5 = getelementptr [32 x i8], ptr %p.5, i64 %i.1
  %at.6 = getelementptr [32 x i8], ptr %p.6, i64 %i.1
  %at.7 = getelementptr [16 x i8], ptr %p.7, i64 %i.1
  ; %raw = load @grad : [@grad]
  %raw.1 = load <8 x float>, ptr %at.4, align 1
  ; %g = cast %raw : [f32]
  ; %mask = load @mask : [i32]
  %mask.9 = load <8 x i32>, ptr %at.5, align 1
  ; %off = eq %mask, %none : [bool]
  %off.1 = icmp eq <8 x i32> %mask.9, <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  ; %on = not %off : [bool]
  %on.1 = xor <8 x i1> %off.1, <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true>
  ; %chosen = and %on, %calm : [bool]
  %chosen.1 = and <8 x i1> %on.1, %calm.5
  ; %store = and %chosen, %good : [bool]
  %store.1 = and <8 x i1> %chosen.1, %good.6
  ; %d = mul %g, %per : [f32]
  %d.1 = fmul <8 x float> %raw.1, %per.5
  ; %w0 = load @weight : [f32]
  %w0.1 = load <8 x float>, ptr %at.6, align 1
  ; %w1 = sub %w0, %d : [f32]
  %w1.1 = fsub <8 x float> %w0.1, %d.1
  ; %w16 = cast %w1 : [bf16]
  %w16.9 = bitcast <8 x float> %w1.1 to <8 x i32>
  %w16.10 = lshr <8 x i32> %w16.9, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
  %w16.11 = and <8 x i32> %w16.10, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
  %w16.12 = add <8 x i32> %w16.11, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
  %w16.13 = add <8 x i32> %w16.9, %w16.12
  %w16.14 = lshr <8 x i32> %w16.13, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
  %w16.15 = fcmp uno <8 x float> %w1.1, %w1.1
  %w16.16 = select <8 x i1> %w16.15, <8 x i32> <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>, <8 x i32> %w16.14
  %w16.17 = trunc <8 x i32> %w16.16 to <8 x i16>
  ; store @weight, %w1 if %store
  %old.1 = load <8 x float>, ptr %at.6, align 1
  %new.1 = select <8 x i1> %store.1, <8 x float> %w1.1, <8 x float> %old.1
  store <8 x float> %new.1, ptr %at.6, align 1
  ; store @copy, %w16 if %calm
  br i1 %streams.3, label %past.caches.1, label %through.caches.1
past.caches.1:
  store <8 x i16> %w16.17, ptr %at.7, align 16, !nontemporal !0
  br label %stored.1
through.caches.1:
  store <8 x i16> %w16.17, ptr %at.7, align 1
  br label %stored.1
stored.1:
  br label %loop.end.1
loop.end.1:
  %i.next.1 = add nuw i64 %i.1, 1
  %more.2 = icmp ult i64 %i.next.1, %count.1
  br i1 %more.2, label %loop.1, label %pass.after.1
pass.after.1:
  br i1 %is_tail.1, label %tail.out.1, label %pass.whole.end.1
pass.whole.end.1:
  %tail.none.1 = icmp eq i64 %tail.4, 0
  br i1 %tail.none.1, label %body.done.1, label %tail.in.1
tail.in.1:
  %rest.5 = getelementptr [32 x i8], ptr %grad.7, i64 %vectors.1
  %bytes.5 = mul i64 %tail.4, 4
  call void @sf_copy(ptr %tail.0, ptr %rest.5, i64 %bytes.5)
  %rest.6 = getelementptr [32 x i8], ptr %mask.8, i64 %vectors.1
  %bytes.6 = mul i64 %tail.4, 4
  call void @sf_copy(ptr %tail.1, ptr %rest.6, i64 %bytes.6)
  %rest.7 = getelementptr [32 x i8], ptr %weight.7, i64 %vectors.1
  %bytes.7 = mul i64 %tail.4, 4
  call void @sf_copy(ptr %tail.2, ptr %rest.7, i64 %bytes.7)
  br label %pass.1
tail.out.1:
  %rest.8 = getelementptr [32 x i8], ptr %weight.7, i64 %vectors.1
  %bytes.8 = mul i64 %tail.4, 4
  call void @sf_copy(ptr %rest.8, ptr %tail.2, i64 %bytes.8)
  %rest.9 = getelementptr [16 x i8], ptr %copy.7, i64 %vectors.1
  %bytes.9 = mul i64 %tail.4, 2
  call void @sf_copy(ptr %rest.9, ptr %tail.3, i64 %bytes.9)
  br label %body.done.1
body.done.1:
  br label %chunk.next
otherwise:
  switch i64 %signature.2, label %signature.0.1 [ i64 1, label %signature.1.2 ]
signature.0.1:
  %vectors.2 = lshr i64 %length.2, 3
  %tail.5 = and i64 %length.2, 7
  %calm.6 = insertelement <8 x i1> poison, i1 %calm.1, i32 0
  %calm.7 = shufflevector <8 x i1> %calm.6, <8 x i1> poison, <8 x i32> zeroinitializer
  %good.7 = insertelement <8 x i1> poison, i1 %good.2, i32 0
  %good.8 = shufflevector <8 x i1> %good.7, <8 x i1> poison, <8 x i32> zeroinitializer
  %per.6 = insertelement <8 x float> poison, float %per.1, i32 0
  %per.7 = shufflevector <8 x float> %per.6, <8 x float> poison, <8 x i32> zeroinitializer
  %grad.8 = getelementptr [32 x i8], ptr %pointers.1, i64 %tensor.2
  %grad.9 = getelementptr [8 x i8], ptr %grad.8, i64 0
  %grad.10 = load ptr, ptr %grad.9
  %grad.11 = getelementptr [2 x i8], ptr %grad.10, i64 %begin.2
  %mask.10 = getelementptr [32 x i8], ptr %pointers.1, i64 %tensor.2
  %mask.11 = getelementptr [8 x i8], ptr %mask.10, i64 3
  %mask.12 = load ptr, ptr %mask.11
  %mask.13 = getelementptr [4 x i8], ptr %mask.12, i64 %begin.2
  %weight.8 = getelementptr [32 x i8], ptr %pointers.1, i64 %tensor.2
  %weight.9 = getelementptr [8 x i8], ptr %weight.8, i64 1
  %weight.10 = load ptr, ptr %weight.9
  %weight.11 = getelementptr [4 x i8], ptr %weight.10, i64 %begin.2
  br label %body.2
body.2:
  br label %pass.2
pass.2:
  %is_tail.2 = phi i1 [ false, %body.2 ], [ true, %tail.in.2 ]
  %count.2 = phi i64 [ %vectors.2, %body.2 ], [ 1, %tail.in.2 ]
  %p.8 = phi ptr [ %grad.11, %body.2 ], [ %tail.0, %tail.in.2 ]
  %p.9 = phi ptr [ %mask.13, %body.2 ], [ %tail.1, %tail.in.2 ]
  %p.10 = phi ptr [ %weight.11, %body.2 ], [ %tail.2, %tail.in.2 ]
  %whole.2 = xor i1 %is_tail.2, true
  %empty.2 = icmp eq i64 %count.2, 0
  br i1 %empty.2, label %pass.after.2, label %loop.2
loop.2:
  %i.2 = phi i64 [ 0, %pass.2 ], [ %i.next.2, %loop.end.2 ]
  %at.8 = getelementptr [16 x i8], ptr %p.8, i64 %i.2
  %at.9 = getelementptr [32 x i8], ptr %p.9, i64 %i.2
  %at.10 = getelementptr [32 x i8], ptr %p.10, i64 %i.2
  ; %raw = load @grad : [@grad]
  %raw.2 = load <8 x i16>, ptr %at.8, align 1
  ; %g = cast %raw : [f32]
  %g.2 = bitcast <8 x i16> %raw.2 to <8 x half>
  %g.3 = fpext <8 x half> %g.2 to <8 x float>
  ; %mask = load @mask : [i32]
  %mask.14 = load <8 x i32>, ptr %at.9, align 1
  ; %off = eq %mask, %none : [bool]
  %off.2 = icmp eq <8 x i32> %mask.14, <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  ; %on = not %off : [bool]
  %on.2 = xor <8 x i1> %off.2, <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true>
  ; %chosen = and %on, %calm : [bool]
  %chosen.2 = and <8 x i1> %on.2, %calm.7
  ; %store = and %chosen, %good : [bool]
  %store.2 = and <8 x i1> %chosen.2, %good.8
  ; %d = mul %g, %per : [f32]
  %d.2 = fmul <8 x float> %g.3, %per.7
  ; %w0 = load @weight : [f32]
  %w0.2 = load <8 x float>, ptr %at.10, align 1
  ; %w1 = sub %w0, %d : [f32]
  %w1.2 = fsub <8 x float> %w0.2, %d.2
  ; store @weight, %w1 if %store
  %old.2 = load <8 x float>, ptr %at.10, align 1
  %new.2 = select <8 x i1> %store.2, <8 x float> %w1.2, <8 x float> %old.2
  store <8 x float> %new.2, ptr %at.10, align 1
  br label %loop.end.2
loop.end.2:
  %i.next.2 = add nuw i64 %i.2, 1
  %more.3 = icmp ult i64 %i.next.2, %count.2
  br i1 %more.3, label %loop.2, label %pass.after.2
pass.after.2:
  br i1 %is_tail.2, label %tail.out.2, label %pass.whole.end.2
pass.whole.end.2:
  %tail.none.2 = icmp eq i64 %tail.5, 0
  br i1 %tail.none.2, label %body.done.2, label %tail.in.2
tail.in.2:
  %rest.10 = getelementptr [16 x i8], ptr %grad.11, i64 %vectors.2
  %bytes.10 = mul i64 %tail.5, 2
  call void @sf_copy(ptr %tail.0, ptr %rest.10, i64 %bytes.10)
  %rest.11 = getelementptr [32 x i8], ptr %mask.13, i64 %vectors.2
  %bytes.11 = mul i64 %tail.5, 4
  call void @sf_copy(ptr %tail.1, ptr %rest.11, i64 %bytes.11)
  %rest.12 = getelementptr [32 x i8], ptr %weight.11, i64 %vectors.2
  %bytes.12 = mul i64 %tail.5, 4
  call void @sf_copy(ptr %tail.2, ptr %rest.12, i64 %bytes.12)
  br label %pass.2
tail.out.2:
  %rest.13 = getelementptr [32 x i8], ptr %weight.11, i64 %vectors.2
  %bytes.13 = mul i64 %tail.5, 4
  call void @sf_copy(ptr %rest.13, ptr %tail.2, i64 %bytes.13)
  br label %body.done.2
body.done.2:
  br label %chunk.next
signature.1.2:
  %vectors.3 = lshr i64 %length.2, 3
  %tail.6 = and i64 %length.2, 7
  %calm.8 = insertelement <8 x i1> poison, i1 %calm.1, i32 0
  %calm.9 = shufflevector <8 x i1> %calm.8, <8 x i1> poison, <8 x i32> zeroinitializer
  %good.9 = insertelement <8 x i1> poison, i1 %good.2, i32 0
  %good.10 = shufflevector <8 x i1> %good.9, <8 x i1> poison, <8 x i32> zeroinitializer
  %per.8 = insertelement <8 x float> poison, float %per.1, i32 0
  %per.9 = shufflevector <8 x float> %per.8, <8 x float> poison, <8 x i32> zeroinitializer
  %grad.12 = getelementptr [32 x i8], ptr %pointers.1, i64 %tensor.2
  %grad.13 = getelementptr [8 x i8], ptr %grad.12, i64 0
  %grad.14 = load ptr, ptr %grad.13
  %grad.15 = getelementptr [4 x i8], ptr %grad.14, i64 %begin.2
  %mask.15 = getelementptr [32 x i8], ptr %pointers.1, i64 %tensor.2
  %mask.16 = getelementptr [8 x i8], ptr %mask.15, i64 3
  %mask.17 = load ptr, ptr %mask.16
  %mask.18 = getelementptr [4 x i8], ptr %mask.17, i64 %begin.2
  %weight.12 = getelementptr [32 x i8], ptr %pointers.1, i64 %tensor.2
  %weight.13 = getelementptr [8 x i8], ptr %weight.12, i64 1
  %weight.14 = load ptr, ptr %weight.13
  %weight.15 = getelementptr [4 x i8], ptr %weight.14, i64 %begin.2
  br label %body.3
body.3:
  br label %pass.3
pass.3:
  %is_tail.3 = phi i1 [ false, %body.3 ], [ true, %tail.in.3 ]
  %count.3 = phi i64 [ %vectors.3, %body.3 ], [ 1, %tail.in.3 ]
  %p.11 = phi ptr [ %grad.15, %body.3 ], [ %tail.0, %tail.in.3 ]
  %p.12 = phi ptr [ %mask.18, %body.3 ], [ %tail.1, %tail.in.3 ]
  %p.13 = phi ptr [ %weight.15, %body.3 ], [ %tail.2, %tail.in.3 ]
  %whole.3 = xor i1 %is_tail.3, true
  %empty.3 = icmp eq i64 %count.3, 0
  br i1 %empty.3, label %pass.after.3, label %loop.3
loop.3:
  %i.3 = phi i64 [ 0, %pass.3 ], [ %i.next.3, %loop.end.3 ]
  %at.11 = getelementptr [32 x i8], ptr %p.11, i64 %i.3
  %at.12 = getelementptr [32 x i8], ptr %p.12, i64 %i.3
  %at.13 = getelementptr [32 x i8], ptr %p.13, i64 %i.3
  ; %raw = load @grad : [@grad]
  %raw.3 = load <8 x float>, ptr %at.11, align 1
  ; %g = cast %raw : [f32]
  ; %mask = load @mask : [i32]
  %mask.19 = load <8 x i32>, ptr %at.12, align 1
  ; %off = eq %mask, %none : [bool]
  %off.3 = icmp eq <8 x i32> %mask.19, <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  ; %on = not %off : [bool]
  %on.3 = xor <8 x i1> %off.3, <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true>
  ; %chosen = and %on, %calm : [bool]
  %chosen.3 = and <8 x i1> %on.3, %calm.9
  ; %store = and %chosen, %good : [bool]
  %store.3 = and <8 x i1> %chosen.3, %good.10
  ; %d = mul %g, %per : [f32]
  %d.3 = fmul <8 x float> %raw.3, %per.9
  ; %w0 = load @weight : [f32]
  %w0.3 = load <8 x float>, ptr %at.13, align 1
  ; %w1 = sub %w0, %d : [f32]
  %w1.3 = fsub <8 x float> %w0.3, %d.3
  ; store @weight, %w1 if %store
  %old.3 = load <8 x float>, ptr %at.13, align 1
  %new.3 = select <8 x i1> %store.3, <8 x float> %w1.3, <8 x float> %old.3
  store <8 x float> %new.3, ptr %at.13, align 1
  br label %loop.end.3
loop.end.3:
  %i.next.3 = add nuw i64 %i.3, 1
  %more.4 = icmp ult i64 %i.next.3, %count.3
  br i1 %more.4, label %loop.3, label %pass.after.3
pass.after.3:
  br i1 %is_tail.3, label %tail.out.3, label %pass.whole.end.3
pass.whole.end.3:
  %tail.none.3 = icmp eq i64 %tail.6, 0
  br i1 %tail.none.3, label %body.done.3, label %tail.in.3
tail.in.3:
  %rest.14 = getelementptr [32 x i8], ptr %grad.15, i64 %vectors.3
  %bytes.14 = mul i64 %tail.6, 4
  call void @sf_copy(ptr %tail.0, ptr %rest.14, i64 %bytes.14)
  %rest.15 = getelementptr [32 x i8], ptr %mask.18, i64 %vectors.3
  %bytes.15 = mul i64 %tail.6, 4
  call void @sf_copy(ptr %tail.1, ptr %rest.15, i64 %bytes.15)
  %rest.16 = getelementptr [32 x i8], ptr %weight.15, i64 %vectors.3
  %bytes.16 = mul i64 %tail.6, 4
  call void @sf_copy(ptr %tail.2, ptr %rest.16, i64 %bytes.16)
  br label %pass.3
tail.out.3:
  %rest.17 = getelementptr [32 x i8], ptr %weight.15, i64 %vectors.3
  %bytes.17 = mul i64 %tail.6, 4
  call void @sf_copy(ptr %rest.17, ptr %tail.2, i64 %bytes.17)
  br label %body.done.3
body.done.3:
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
  ; arg %limit : f32 = 10
  %limit = getelementptr [8 x i8], ptr %step_args.1, i64 0
  %limit.1 = load float, ptr %limit, align 1
  ; %bad = reduce_any %bad_element : bool
  %bad = getelementptr [8 x i8], ptr %results.1, i64 2
  %bad.1 = load ptr, ptr %bad
  %bad.2 = getelementptr [1 x i8], ptr %bad.1, i64 0
  %bad.3 = load i8, ptr %bad.2, align 1
  %bad.4 = icmp ne i8 %bad.3, 0
  ; %good = not %bad : bool
  %good = xor i1 %bad.4, true
  ; %one = const 1 : i64
  ; %total0 = read @total : f64
  %total0 = getelementptr [8 x i8], ptr %states.1, i64 2
  %total0.1 = load ptr, ptr %total0
  %total0.2 = getelementptr [8 x i8], ptr %total0.1, i64 0
  %total0.3 = load double, ptr %total0.2, align 1
  ; %seen = cast %bad : f64
  %seen = select i1 %bad.4, double 0x3FF0000000000000, double 0x0000000000000000
  ; %total1 = add %total0, %seen : f64
  %total1 = fadd double %total0.3, %seen
  br label %tensor.before
tensor.before:
  br label %tensor.test
tensor.test:
  %tensor = phi i64 [ 0, %tensor.before ], [ %next, %tensor.next ]
  %more = icmp ult i64 %tensor, %tensor_count.2
  br i1 %more, label %tensor.work, label %tensor.end
tensor.work:
  %tensor.at = getelementptr [32 x i8], ptr %tensors.1, i64 %tensor
  %flags = getelementptr i8, ptr %tensor.at, i64 4
  %flags.1 = load i32, ptr %flags
  %present = and i32 %flags.1, 1
  %present.1 = icmp ne i32 %present, 0
  br i1 %present.1, label %present.2, label %tensor.next
present.2:
  %group = getelementptr i8, ptr %tensor.at, i64 0
  %group.1 = load i32, ptr %group
  %group.2 = zext i32 %group.1 to i64
  ; arg %lr : {f64} = 0.01
  %lr = getelementptr [8 x i8], ptr %group_args.1, i64 %group.2
  %lr.1 = getelementptr [8 x i8], ptr %lr, i64 0
  %lr.2 = load double, ptr %lr.1, align 1
  ; %sum = reduce_add %sq : {f32}
  %sum = getelementptr [8 x i8], ptr %results.1, i64 0
  %sum.1 = load ptr, ptr %sum
  %sum.2 = getelementptr [4 x i8], ptr %sum.1, i64 %group.2
  %sum.3 = load float, ptr %sum.2, align 1
  ; %group_norm = sqrt %sum : {f32}
  %group_norm = call float @llvm.sqrt.f32(float %sum.3)
  ; %scale = read @lr_scale : {f32}
  %scale = getelementptr [8 x i8], ptr %states.1, i64 1
  %scale.1 = load ptr, ptr %scale
  %scale.2 = getelementptr [4 x i8], ptr %scale.1, i64 %group.2
  %scale.3 = load float, ptr %scale.2, align 1
  ; %lr32 = cast %lr : {f32}
  %lr32 = fptrunc double %lr.2 to float
  ; %rate = mul %lr32, %scale : {f32}
  %rate = fmul float %lr32, %scale.3
  ; %tensor_max = reduce_max %size : <f32>
  %tensor_max = getelementptr [8 x i8], ptr %results.1, i64 1
  %tensor_max.1 = load ptr, ptr %tensor_max
  %tensor_max.2 = getelementptr [4 x i8], ptr %tensor_max.1, i64 %tensor
  %tensor_max.3 = load float, ptr %tensor_max.2, align 1
  ; %calm = lt %tensor_max, %limit : <bool>
  %calm = fcmp olt float %tensor_max.3, %limit.1
  ; %t0 = read @count : <i64>
  %t0 = getelementptr [8 x i8], ptr %states.1, i64 0
  %t0.1 = load ptr, ptr %t0
  %t0.2 = getelementptr [8 x i8], ptr %t0.1, i64 %tensor
  %t0.3 = load i64, ptr %t0.2, align 1
  ; %t1 = add %t0, %one : <i64>
  %t1 = add i64 %t0.3, 1
  br i1 %good, label %write, label %write.end
write:
  %count = getelementptr [8 x i8], ptr %states.1, i64 0
  %count.1 = load ptr, ptr %count
  %count.2 = getelementptr [8 x i8], ptr %count.1, i64 %tensor
  store i64 %t1, ptr %count.2, align 1
  br label %write.end
write.end:
  br i1 %calm, label %write.1, label %write.end.1
write.1:
  %tensor_max.4 = getelementptr [8 x i8], ptr %states.1, i64 4
  %tensor_max.5 = load ptr, ptr %tensor_max.4
  %tensor_max.6 = getelementptr [4 x i8], ptr %tensor_max.5, i64 %tensor
  store float %tensor_max.3, ptr %tensor_max.6, align 1
  br label %write.end.1
write.end.1:
  br label %tensor.next
tensor.next:
  %next = add i64 %tensor, 1
  br label %tensor.test
tensor.end:
  br label %group.before
group.before:
  br label %group.test
group.test:
  %group.3 = phi i64 [ 0, %group.before ], [ %next.1, %group.next ]
  %more.1 = icmp ult i64 %group.3, %group_count.2
  br i1 %more.1, label %group.work, label %group.end
group.work:
  ; arg %lr : {f64} = 0.01
  %lr.3 = getelementptr [8 x i8], ptr %group_args.1, i64 %group.3
  %lr.4 = getelementptr [8 x i8], ptr %lr.3, i64 0
  %lr.5 = load double, ptr %lr.4, align 1
  ; %sum = reduce_add %sq : {f32}
  %sum.4 = getelementptr [8 x i8], ptr %results.1, i64 0
  %sum.5 = load ptr, ptr %sum.4
  %sum.6 = getelementptr [4 x i8], ptr %sum.5, i64 %group.3
  %sum.7 = load float, ptr %sum.6, align 1
  ; %group_norm = sqrt %sum : {f32}
  %group_norm.1 = call float @llvm.sqrt.f32(float %sum.7)
  ; %scale = read @lr_scale : {f32}
  %scale.4 = getelementptr [8 x i8], ptr %states.1, i64 1
  %scale.5 = load ptr, ptr %scale.4
  %scale.6 = getelementptr [4 x i8], ptr %scale.5, i64 %group.3
  %scale.7 = load float, ptr %scale.6, align 1
  ; %lr32 = cast %lr : {f32}
  %lr32.1 = fptrunc double %lr.5 to float
  ; %rate = mul %lr32, %scale : {f32}
  %rate.1 = fmul float %lr32.1, %scale.7
  br i1 %good, label %write.2, label %write.end.2
write.2:
  %lr_scale = getelementptr [8 x i8], ptr %states.1, i64 1
  %lr_scale.1 = load ptr, ptr %lr_scale
  %lr_scale.2 = getelementptr [4 x i8], ptr %lr_scale.1, i64 %group.3
  store float %rate.1, ptr %lr_scale.2, align 1
  br label %write.end.2
write.end.2:
  %group_norm.2 = getelementptr [8 x i8], ptr %states.1, i64 3
  %group_norm.3 = load ptr, ptr %group_norm.2
  %group_norm.4 = getelementptr [4 x i8], ptr %group_norm.3, i64 %group.3
  store float %group_norm.1, ptr %group_norm.4, align 1
  br label %group.next
group.next:
  %next.1 = add i64 %group.3, 1
  br label %group.test
group.end:
  %total = getelementptr [8 x i8], ptr %states.1, i64 2
  %total.1 = load ptr, ptr %total
  %total.2 = getelementptr [8 x i8], ptr %total.1, i64 0
  store double %total1, ptr %total.2, align 1
  %bad.5 = getelementptr [8 x i8], ptr %states.1, i64 5
  %bad.6 = load ptr, ptr %bad.5
  %bad.7 = getelementptr [1 x i8], ptr %bad.6, i64 0
  %byte = zext i1 %bad.4 to i8
  store i8 %byte, ptr %bad.7, align 1
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
declare <8 x float> @llvm.maximum.v8f32(<8 x float>, <8 x float>)
declare float @llvm.sqrt.f32(float)
declare i64 @llvm.ctlz.i64(i64, i1)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64-v3" "target-features"="+avx2,+f16c,+fma" "prefer-vector-width"="256" }
attributes #1 = { noinline nounwind "no-builtins" "target-cpu"="x86-64-v3" "target-features"="+avx2,+f16c,+fma" "prefer-vector-width"="256" }
!0 = !{i32 1}
