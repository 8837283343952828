; stepfuse: step @adamw, 8 lanes
; signature 0: @grad=f16 @weight=f16 @master=f32 @exp_avg=f32 @exp_avg_sq=f32

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
  ; %scale = read @scale : f32
  %scale = getelementptr [8 x i8], ptr %states.1, i64 0
  %scale.1 = load ptr, ptr %scale
  %scale.2 = getelementptr [4 x i8], ptr %scale.1, i64 0
  %scale.3 = load float, ptr %scale.2, align 1
  ; %scale_f64 = cast %scale : f64
  %scale_f64 = fpext float %scale.3 to double
  ; %inv_scale_f64 = rcp %scale_f64 : f64
  %inv_scale_f64 = fdiv double 0x3FF0000000000000, %scale_f64
  ; %inv_scale = cast %inv_scale_f64 : f32
  %inv_scale = fptrunc double %inv_scale_f64 to float
  %scale.4 = getelementptr [8 x i8], ptr %scalars.1, i64 12
  store i64 0, ptr %scale.4
  store float %scale.3, ptr %scale.4, align 1
  %scale_f64.1 = getelementptr [8 x i8], ptr %scalars.1, i64 13
  store double %scale_f64, ptr %scale_f64.1, align 1
  %inv_scale_f64.1 = getelementptr [8 x i8], ptr %scalars.1, i64 14
  store double %inv_scale_f64, ptr %inv_scale_f64.1, align 1
  %inv_scale.1 = getelementptr [8 x i8], ptr %scalars.1, i64 15
  store i64 0, ptr %inv_scale.1
  store float %inv_scale, ptr %inv_scale.1, align 1
  ret void
}

define void @sf_phase_0(ptr noalias readonly %ctx, i64 %begin, i64 %end) #0 {
entry:
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
  %scale = getelementptr [8 x i8], ptr %scalars.1, i64 12
  %scale.1 = load float, ptr %scale, align 1
  %scale_f64 = getelementptr [8 x i8], ptr %scalars.1, i64 13
  %scale_f64.1 = load double, ptr %scale_f64, align 1
  %inv_scale_f64 = getelementptr [8 x i8], ptr %scalars.1, i64 14
  %inv_scale_f64.1 = load double, ptr %inv_scale_f64, align 1
  %inv_scale = getelementptr [8 x i8], ptr %scalars.1, i64 15
  %inv_scale.1 = load float, ptr %inv_scale, align 1
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
  br label %chunk.next
chunk.present:
  switch i64 %signature.2, label %signature.0 [ ]
signature.0:
  %vectors = lshr i64 %length.2, 3
  %tail = and i64 %length.2, 7
  %inv_scale.2 = insertelement <8 x float> poison, float %inv_scale.1, i32 0
  %inv_scale.3 = shufflevector <8 x float> %inv_scale.2, <8 x float> poison, <8 x i32> zeroinitializer
  %grad = getelementptr [40 x i8], ptr %pointers.1, i64 %tensor.2
  %grad.1 = getelementptr [8 x i8], ptr %grad, i64 0
  %grad.2 = load ptr, ptr %grad.1
  %grad.3 = getelementptr [2 x i8], ptr %grad.2, i64 %begin.2
  %scratch.2 = getelementptr [8 x i8], ptr %scratch.1, i64 0
  %scratch.3 = load ptr, ptr %scratch.2
  %scratch.4 = getelementptr [4 x i8], ptr %scratch.3, i64 %scratch_base.1
  %scratch.5 = getelementptr [4 x i8], ptr %scratch.4, i64 %begin.2
  %address = ptrtoint ptr %scratch.5 to i64
  %address.1 = and i64 %address, 31
  %aligned = icmp eq i64 %address.1, 0
  %streams = and i1 %aligned, %is_large
  br label %body
body:
  br label %pass
pass:
  %is_tail = phi i1 [ false, %body ], [ true, %tail.in ]
  %count = phi i64 [ %vectors, %body ], [ 1, %tail.in ]
  %p = phi ptr [ %grad.3, %body ], [ %tail.0, %tail.in ]
  %p.1 = phi ptr [ %scratch.5, %body ], [ %tail.1, %tail.in ]
  %found_inf = phi <8 x i32> [ <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>, %body ], [ %found_inf.after, %tail.in ]
  %whole = xor i1 %is_tail, true
  %streams.1 = and i1 %streams, %whole
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %pass.after, label %loop
loop:
  %i = phi i64 [ 0, %pass ], [ %i.next, %loop.end ]
  %found_inf.1 = phi <8 x i32> [ %found_inf, %pass ], [ %found_inf.next, %loop.end ]
  %at = getelementptr [16 x i8], ptr %p, i64 %i
  %at.1 = getelementptr [32 x i8], ptr %p.1, i64 %i
  %ahead = getelementptr i8, ptr %at, i64 8192
  call void @llvm.prefetch.p0(ptr %ahead, i32 0, i32 3, i32 1)
  ; %grad = load @grad : [f16]
  %grad.4 = load <8 x i16>, ptr %at, align 1
  ; %grad_f32 = cast %grad : [f32]
  %grad_f32 = bitcast <8 x i16> %grad.4 to <8 x half>
  %grad_f32.1 = fpext <8 x half> %grad_f32 to <8 x float>
  ; %g = mul %grad_f32, %inv_scale : [f32]
  %g = fmul <8 x float> %grad_f32.1, %inv_scale.3
  ; %finite = isfinite %grad_f32 : [bool]
  %finite = call <8 x float> @llvm.fabs.v8f32(<8 x float> %grad_f32.1)
  %finite.1 = fcmp olt <8 x float> %finite, <float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000, float 0x7FF0000000000000>
  ; %nonfinite = not %finite : [bool]
  %nonfinite = xor <8 x i1> %finite.1, <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true>
  ; %found_inf = reduce_any %nonfinite : bool
  %seen = sext <8 x i1> %nonfinite to <8 x i32>
  %combined = or <8 x i32> %found_inf.1, %seen
  %found_inf.next = bitcast <8 x i32> %combined to <8 x i32>
  ; keep %g
  br i1 %streams.1, label %past.caches, label %through.caches
past.caches:
  store <8 x float> %g, ptr %at.1, align 32, !nontemporal !0
  br label %stored
through.caches:
  store <8 x float> %g, ptr %at.1, align 1
  br label %stored
stored:
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
  %rest = getelementptr [16 x i8], ptr %grad.3, i64 %vectors
  %bytes = mul i64 %tail, 2
  call void @sf_copy(ptr %tail.0, ptr %rest, i64 %bytes)
  br label %pass
tail.out:
  %tail.count = trunc i64 %tail to i32
  %tail.count.1 = insertelement <8 x i32> poison, i32 %tail.count, i32 0
  %tail.count.2 = shufflevector <8 x i32> %tail.count.1, <8 x i32> poison, <8 x i32> zeroinitializer
  %active = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %tail.count.2
  %rest.1 = getelementptr [32 x i8], ptr %scratch.5, i64 %vectors
  %bytes.1 = mul i64 %tail, 4
  call void @sf_copy(ptr %rest.1, ptr %tail.1, i64 %bytes.1)
  %merged = select <8 x i1> %active, <8 x i32> %found_inf.after, <8 x i32> %found_inf
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
  %slot.3 = getelementptr [8 x i8], ptr %slots.1, i64 0
  %slot.4 = load ptr, ptr %slot.3
  %slot.5 = getelementptr [1 x i8], ptr %slot.4, i64 %c
  %byte.1 = zext i1 %found_inf.7 to i8
  store i8 %byte.1, ptr %slot.5, align 1
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
  ret void
}

define void @sf_phase_1(ptr noalias readonly %ctx, i64 %begin, i64 %end) #0 {
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
  %slot = getelementptr [8 x i8], ptr %slots.1, i64 1
  %slot.1 = load ptr, ptr %slot
  %slot.2 = getelementptr [4 x i8], ptr %slot.1, i64 %c
  store float 0x0000000000000000, ptr %slot.2, align 1
  br label %chunk.next
chunk.present:
  switch i64 %signature.2, label %signature.0 [ ]
signature.0:
  %vectors = lshr i64 %length.2, 3
  %tail = and i64 %length.2, 7
  %scratch.2 = getelementptr [8 x i8], ptr %scratch.1, i64 0
  %scratch.3 = load ptr, ptr %scratch.2
  %scratch.4 = getelementptr [4 x i8], ptr %scratch.3, i64 %scratch_base.1
  %scratch.5 = getelementptr [4 x i8], ptr %scratch.4, i64 %begin.2
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
  %p = phi ptr [ %scratch.5, %body ], [ %tail.0, %tail.in ]
  %lanes = phi ptr [ %lanes.r1, %body ], [ %lanes.tail.r1, %tail.in ]
  %whole = xor i1 %is_tail, true
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %pass.after, label %loop
loop:
  %i = phi i64 [ 0, %pass ], [ %i.next, %loop.end ]
  %at = getelementptr [32 x i8], ptr %p, i64 %i
  %ahead = getelementptr i8, ptr %at, i64 8192
  call void @llvm.prefetch.p0(ptr %ahead, i32 0, i32 3, i32 1)
  ; fetch %g
  %g = load <8 x float>, ptr %at, align 1
  ; %g_square = mul %g, %g : [f32]
  %g_square = fmul <8 x float> %g, %g
  ; %sum = reduce_add %g_square : f32
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
  br i1 %is_tail, label %tail.out, label %pass.whole.end
pass.whole.end:
  %tail.none = icmp eq i64 %tail, 0
  br i1 %tail.none, label %body.done, label %tail.in
tail.in:
  %rest = getelementptr [32 x i8], ptr %scratch.5, i64 %vectors
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
  %walked.1 = mul i64 %vectors, 8
  %lane.7 = and i64 %walked.1, 2047
  %lane.8 = getelementptr [4 x i8], ptr %lanes.r1, i64 %lane.7
  %lanes.2 = load <8 x float>, ptr %lanes.tail.r1, align 1
  %lanes.3 = load <8 x float>, ptr %lane.8, align 1
  %merged = select <8 x i1> %active, <8 x float> %lanes.2, <8 x float> %lanes.3
  store <8 x float> %merged, ptr %lane.8, align 1
  br label %body.done
body.done:
  %sum = call float @sf_fold_lanes(ptr %lanes.r1, i64 %lane.start, i64 %lane.count.5)
  %slot.3 = getelementptr [8 x i8], ptr %slots.1, i64 1
  %slot.4 = load ptr, ptr %slot.3
  %slot.5 = getelementptr [4 x i8], ptr %slot.4, i64 %c
  store float %sum, ptr %slot.5, align 1
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

define void @sf_enter_2(ptr %ctx) #0 {
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
  ; arg %max_norm : f64 = 1
  %max_norm = getelementptr [8 x i8], ptr %step_args.1, i64 0
  %max_norm.1 = load double, ptr %max_norm, align 1
  ; %sum = reduce_add %g_square : f32
  %sum = getelementptr [8 x i8], ptr %results.1, i64 1
  %sum.1 = load ptr, ptr %sum
  %sum.2 = getelementptr [4 x i8], ptr %sum.1, i64 0
  %sum.3 = load float, ptr %sum.2, align 1
  ; %norm = sqrt %sum : f32
  %norm = call float @llvm.sqrt.f32(float %sum.3)
  ; %c_1e_06_f32 = const 1e-06 : f32
  ; %norm_plus = add %norm, %c_1e_06_f32 : f32
  %norm_plus = fadd float %norm, 0x3EB0C6F7A0000000
  ; %inv_norm = rcp %norm_plus : f32
  %inv_norm = fdiv float 0x3FF0000000000000, %norm_plus
  ; %max_norm_f32 = cast %max_norm : f32
  %max_norm_f32 = fptrunc double %max_norm.1 to float
  ; %clip_ratio = mul %inv_norm, %max_norm_f32 : f32
  %clip_ratio = fmul float %inv_norm, %max_norm_f32
  ; %c_1_f32 = const 1 : f32
  ; %clip_coef = min %clip_ratio, %c_1_f32 : f32
  %clip_coef = call float @llvm.minimum.f32(float %clip_ratio, float 0x3FF0000000000000)
  %max_norm.2 = getelementptr [8 x i8], ptr %scalars.1, i64 5
  store double %max_norm.1, ptr %max_norm.2, align 1
  %sum.4 = getelementptr [8 x i8], ptr %scalars.1, i64 22
  store i64 0, ptr %sum.4
  store float %sum.3, ptr %sum.4, align 1
  %norm.1 = getelementptr [8 x i8], ptr %scalars.1, i64 23
  store i64 0, ptr %norm.1
  store float %norm, ptr %norm.1, align 1
  %norm_plus.1 = getelementptr [8 x i8], ptr %scalars.1, i64 30
  store i64 0, ptr %norm_plus.1
  store float %norm_plus, ptr %norm_plus.1, align 1
  %inv_norm.1 = getelementptr [8 x i8], ptr %scalars.1, i64 31
  store i64 0, ptr %inv_norm.1
  store float %inv_norm, ptr %inv_norm.1, align 1
  %max_norm_f32.1 = getelementptr [8 x i8], ptr %scalars.1, i64 32
  store i64 0, ptr %max_norm_f32.1
  store float %max_norm_f32, ptr %max_norm_f32.1, align 1
  %clip_ratio.1 = getelementptr [8 x i8], ptr %scalars.1, i64 33
  store i64 0, ptr %clip_ratio.1
  store float %clip_ratio, ptr %clip_ratio.1, align 1
  %clip_coef.1 = getelementptr [8 x i8], ptr %scalars.1, i64 35
  store i64 0, ptr %clip_coef.1
  store float %clip_coef, ptr %clip_coef.1, align 1
  ret void
}

define void @sf_phase_2(ptr noalias readonly %ctx, i64 %begin, i64 %end) #0 {
entry:
  %tail.0 = alloca [8 x float], align 64
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
  %max_norm = getelementptr [8 x i8], ptr %scalars.1, i64 5
  %max_norm.1 = load double, ptr %max_norm, align 1
  %sum = getelementptr [8 x i8], ptr %scalars.1, i64 22
  %sum.1 = load float, ptr %sum, align 1
  %norm = getelementptr [8 x i8], ptr %scalars.1, i64 23
  %norm.1 = load float, ptr %norm, align 1
  %norm_plus = getelementptr [8 x i8], ptr %scalars.1, i64 30
  %norm_plus.1 = load float, ptr %norm_plus, align 1
  %inv_norm = getelementptr [8 x i8], ptr %scalars.1, i64 31
  %inv_norm.1 = load float, ptr %inv_norm, align 1
  %max_norm_f32 = getelementptr [8 x i8], ptr %scalars.1, i64 32
  %max_norm_f32.1 = load float, ptr %max_norm_f32, align 1
  %clip_ratio = getelementptr [8 x i8], ptr %scalars.1, i64 33
  %clip_ratio.1 = load float, ptr %clip_ratio, align 1
  %clip_coef = getelementptr [8 x i8], ptr %scalars.1, i64 35
  %clip_coef.1 = load float, ptr %clip_coef, align 1
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
  br label %chunk.next
chunk.present:
  switch i64 %signature.2, label %signature.0 [ ]
signature.0:
  %vectors = lshr i64 %length.2, 3
  %tail = and i64 %length.2, 7
  %clip_coef.2 = insertelement <8 x float> poison, float %clip_coef.1, i32 0
  %clip_coef.3 = shufflevector <8 x float> %clip_coef.2, <8 x float> poison, <8 x i32> zeroinitializer
  %scratch.2 = getelementptr [8 x i8], ptr %scratch.1, i64 0
  %scratch.3 = load ptr, ptr %scratch.2
  %scratch.4 = getelementptr [4 x i8], ptr %scratch.3, i64 %scratch_base.1
  %scratch.5 = getelementptr [4 x i8], ptr %scratch.4, i64 %begin.2
  br label %body
body:
  br label %pass
pass:
  %is_tail = phi i1 [ false, %body ], [ true, %tail.in ]
  %count = phi i64 [ %vectors, %body ], [ 1, %tail.in ]
  %p = phi ptr [ %scratch.5, %body ], [ %tail.0, %tail.in ]
  %whole = xor i1 %is_tail, true
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %pass.after, label %loop
loop:
  %i = phi i64 [ 0, %pass ], [ %i.next, %loop.end ]
  %at = getelementptr [32 x i8], ptr %p, i64 %i
  %ahead = getelementptr i8, ptr %at, i64 8192
  call void @llvm.prefetch.p0(ptr %ahead, i32 0, i32 3, i32 1)
  ; fetch %g
  %g = load <8 x float>, ptr %at, align 1
  ; %g_clipped = mul %g, %clip_coef : [f32]
  %g_clipped = fmul <8 x float> %g, %clip_coef.3
  ; keep %g_clipped
  store <8 x float> %g_clipped, ptr %at, align 1
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
  %rest = getelementptr [32 x i8], ptr %scratch.5, i64 %vectors
  %bytes = mul i64 %tail, 4
  call void @sf_copy(ptr %tail.0, ptr %rest, i64 %bytes)
  br label %pass
tail.out:
  %rest.1 = getelementptr [32 x i8], ptr %scratch.5, i64 %vectors
  %bytes.1 = mul i64 %tail, 4
  call void @sf_copy(ptr %rest.1, ptr %tail.0, i64 %bytes.1)
  br label %body.done
body.done:
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

define void @sf_enter_3(ptr %ctx) #0 {
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
  ; %sum = reduce_add %g_square : f32
  %sum = getelementptr [8 x i8], ptr %results.1, i64 1
  %sum.1 = load ptr, ptr %sum
  %sum.2 = getelementptr [4 x i8], ptr %sum.1, i64 0
  %sum.3 = load float, ptr %sum.2, align 1
  ; %norm = sqrt %sum : f32
  %norm = call float @llvm.sqrt.f32(float %sum.3)
  ; %norm_finite = isfinite %norm : bool
  %norm_finite = call float @llvm.fabs.f32(float %norm)
  %norm_finite.1 = fcmp olt float %norm_finite, 0x7FF0000000000000
  ; %norm_nonfinite = not %norm_finite : bool
  %norm_nonfinite = xor i1 %norm_finite.1, true
  ; %all_finite = not %found_inf : bool
  %all_finite = xor i1 %found_inf.4, true
  ; %norm_overflow = and %norm_nonfinite, %all_finite : bool
  %norm_overflow = and i1 %norm_nonfinite, %all_finite
  ; %c_1_f32 = const 1 : f32
  ; %bad = or %found_inf, %norm_overflow : bool
  %bad = or i1 %found_inf.4, %norm_overflow
  ; %good = not %bad : bool
  %good = xor i1 %bad, true
  ; %c_1_f64 = const 1 : f64
  ; %c_0_5_f32 = const 0.5 : f32
  ; %c_1_i64 = const 1 : i64
  %found_inf.5 = getelementptr [8 x i8], ptr %scalars.1, i64 19
  store i64 0, ptr %found_inf.5
  %byte = zext i1 %found_inf.4 to i8
  store i8 %byte, ptr %found_inf.5, align 1
  %sum.4 = getelementptr [8 x i8], ptr %scalars.1, i64 22
  store i64 0, ptr %sum.4
  store float %sum.3, ptr %sum.4, align 1
  %norm.1 = getelementptr [8 x i8], ptr %scalars.1, i64 23
  store i64 0, ptr %norm.1
  store float %norm, ptr %norm.1, align 1
  %norm_finite.2 = getelementptr [8 x i8], ptr %scalars.1, i64 24
  store i64 0, ptr %norm_finite.2
  %byte.1 = zext i1 %norm_finite.1 to i8
  store i8 %byte.1, ptr %norm_finite.2, align 1
  %norm_nonfinite.1 = getelementptr [8 x i8], ptr %scalars.1, i64 25
  store i64 0, ptr %norm_nonfinite.1
  %byte.2 = zext i1 %norm_nonfinite to i8
  store i8 %byte.2, ptr %norm_nonfinite.1, align 1
  %all_finite.1 = getelementptr [8 x i8], ptr %scalars.1, i64 26
  store i64 0, ptr %all_finite.1
  %byte.3 = zext i1 %all_finite to i8
  store i8 %byte.3, ptr %all_finite.1, align 1
  %norm_overflow.1 = getelementptr [8 x i8], ptr %scalars.1, i64 27
  store i64 0, ptr %norm_overflow.1
  %byte.4 = zext i1 %norm_overflow to i8
  store i8 %byte.4, ptr %norm_overflow.1, align 1
  %bad.1 = getelementptr [8 x i8], ptr %scalars.1, i64 37
  store i64 0, ptr %bad.1
  %byte.5 = zext i1 %bad to i8
  store i8 %byte.5, ptr %bad.1, align 1
  %good.1 = getelementptr [8 x i8], ptr %scalars.1, i64 38
  store i64 0, ptr %good.1
  %byte.6 = zext i1 %good to i8
  store i8 %byte.6, ptr %good.1, align 1
  ret void
}

define void @sf_phase_3(ptr noalias readonly %ctx, i64 %begin, i64 %end) #0 {
entry:
  %group.of = alloca i64, align 8
  %lr.of = alloca double, align 8
  %beta1.of = alloca double, align 8
  %beta2.of = alloca double, align 8
  %eps.of = alloca double, align 8
  %weight_decay.of = alloca double, align 8
  %decay_rate.of = alloca double, align 8
  %decay_f64.of = alloca double, align 8
  %decay.of = alloca float, align 8
  %rest1.of = alloca double, align 8
  %pull.of = alloca float, align 8
  %pull_size.of = alloca float, align 8
  %from_a.of = alloca i1, align 8
  %push.of = alloca float, align 8
  %lerp_coef.of = alloca float, align 8
  %rest_f64.of = alloca double, align 8
  %rest.of = alloca float, align 8
  %keep.of = alloca float, align 8
  %eps_f32.of = alloca float, align 8
  %tensor.of = alloca i64, align 8
  %t0.of = alloca i64, align 8
  %t.of = alloca i64, align 8
  %beta_t.of = alloca double, align 8
  %correction.of = alloca double, align 8
  %rate.of = alloca double, align 8
  %step_size_f64.of = alloca double, align 8
  %step_size.of = alloca float, align 8
  %beta_t.1.of = alloca double, align 8
  %correction.1.of = alloca double, align 8
  %correction_root_f64.of = alloca double, align 8
  %correction_root.of = alloca float, align 8
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
  %found_inf = getelementptr [8 x i8], ptr %scalars.1, i64 19
  %found_inf.1 = load i8, ptr %found_inf, align 1
  %found_inf.2 = icmp ne i8 %found_inf.1, 0
  %sum = getelementptr [8 x i8], ptr %scalars.1, i64 22
  %sum.1 = load float, ptr %sum, align 1
  %norm = getelementptr [8 x i8], ptr %scalars.1, i64 23
  %norm.1 = load float, ptr %norm, align 1
  %norm_finite = getelementptr [8 x i8], ptr %scalars.1, i64 24
  %norm_finite.1 = load i8, ptr %norm_finite, align 1
  %norm_finite.2 = icmp ne i8 %norm_finite.1, 0
  %norm_nonfinite = getelementptr [8 x i8], ptr %scalars.1, i64 25
  %norm_nonfinite.1 = load i8, ptr %norm_nonfinite, align 1
  %norm_nonfinite.2 = icmp ne i8 %norm_nonfinite.1, 0
  %all_finite = getelementptr [8 x i8], ptr %scalars.1, i64 26
  %all_finite.1 = load i8, ptr %all_finite, align 1
  %all_finite.2 = icmp ne i8 %all_finite.1, 0
  %norm_overflow = getelementptr [8 x i8], ptr %scalars.1, i64 27
  %norm_overflow.1 = load i8, ptr %norm_overflow, align 1
  %norm_overflow.2 = icmp ne i8 %norm_overflow.1, 0
  %bad = getelementptr [8 x i8], ptr %scalars.1, i64 37
  %bad.1 = load i8, ptr %bad, align 1
  %bad.2 = icmp ne i8 %bad.1, 0
  %good = getelementptr [8 x i8], ptr %scalars.1, i64 38
  %good.1 = load i8, ptr %good, align 1
  %good.2 = icmp ne i8 %good.1, 0
  br i1 %good.2, label %start, label %end.1
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
  ; arg %lr : {f64} = 0.001
  %lr = getelementptr [40 x i8], ptr %group_args.1, i64 %group.2
  %lr.1 = getelementptr [8 x i8], ptr %lr, i64 0
  %lr.2 = load double, ptr %lr.1, align 1
  ; arg %beta1 : {f64} = 0.9
  %beta1 = getelementptr [40 x i8], ptr %group_args.1, i64 %group.2
  %beta1.1 = getelementptr [8 x i8], ptr %beta1, i64 1
  %beta1.2 = load double, ptr %beta1.1, align 1
  ; arg %beta2 : {f64} = 0.999
  %beta2 = getelementptr [40 x i8], ptr %group_args.1, i64 %group.2
  %beta2.1 = getelementptr [8 x i8], ptr %beta2, i64 2
  %beta2.2 = load double, ptr %beta2.1, align 1
  ; arg %eps : {f64} = 1e-08
  %eps = getelementptr [40 x i8], ptr %group_args.1, i64 %group.2
  %eps.1 = getelementptr [8 x i8], ptr %eps, i64 3
  %eps.2 = load double, ptr %eps.1, align 1
  ; arg %weight_decay : {f64} = 0.01
  %weight_decay = getelementptr [40 x i8], ptr %group_args.1, i64 %group.2
  %weight_decay.1 = getelementptr [8 x i8], ptr %weight_decay, i64 4
  %weight_decay.2 = load double, ptr %weight_decay.1, align 1
  ; %decay_rate = mul %lr, %weight_decay : {f64}
  %decay_rate = fmul double %lr.2, %weight_decay.2
  ; %decay_f64 = sub %c_1_f64, %decay_rate : {f64}
  %decay_f64 = fsub double 0x3FF0000000000000, %decay_rate
  ; %decay = cast %decay_f64 : {f32}
  %decay = fptrunc double %decay_f64 to float
  ; %rest1 = sub %c_1_f64, %beta1 : {f64}
  %rest1 = fsub double 0x3FF0000000000000, %beta1.2
  ; %pull = cast %rest1 : {f32}
  %pull = fptrunc double %rest1 to float
  ; %pull_size = abs %pull : {f32}
  %pull_size = call float @llvm.fabs.f32(float %pull)
  ; %from_a = lt %pull_size, %c_0_5_f32 : {bool}
  %from_a = fcmp olt float %pull_size, 0x3FE0000000000000
  ; %push = sub %pull, %c_1_f32 : {f32}
  %push = fsub float %pull, 0x3FF0000000000000
  ; %lerp_coef = select %from_a, %pull, %push : {f32}
  %lerp_coef = select i1 %from_a, float %pull, float %push
  ; %rest_f64 = sub %c_1_f64, %beta2 : {f64}
  %rest_f64 = fsub double 0x3FF0000000000000, %beta2.2
  ; %rest = cast %rest_f64 : {f32}
  %rest = fptrunc double %rest_f64 to float
  ; %keep = cast %beta2 : {f32}
  %keep = fptrunc double %beta2.2 to float
  ; %eps_f32 = cast %eps : {f32}
  %eps_f32 = fptrunc double %eps.2 to float
  store double %lr.2, ptr %lr.of
  store double %beta1.2, ptr %beta1.of
  store double %beta2.2, ptr %beta2.of
  store double %eps.2, ptr %eps.of
  store double %weight_decay.2, ptr %weight_decay.of
  store double %decay_rate, ptr %decay_rate.of
  store double %decay_f64, ptr %decay_f64.of
  store float %decay, ptr %decay.of
  store double %rest1, ptr %rest1.of
  store float %pull, ptr %pull.of
  store float %pull_size, ptr %pull_size.of
  store i1 %from_a, ptr %from_a.of
  store float %push, ptr %push.of
  store float %lerp_coef, ptr %lerp_coef.of
  store double %rest_f64, ptr %rest_f64.of
  store float %rest, ptr %rest.of
  store float %keep, ptr %keep.of
  store float %eps_f32, ptr %eps_f32.of
  br label %group.ready
group.ready:
  %lr.3 = load double, ptr %lr.of
  %beta1.3 = load double, ptr %beta1.of
  %beta2.3 = load double, ptr %beta2.of
  %eps.3 = load double, ptr %eps.of
  %weight_decay.3 = load double, ptr %weight_decay.of
  %decay_rate.1 = load double, ptr %decay_rate.of
  %decay_f64.1 = load double, ptr %decay_f64.of
  %decay.1 = load float, ptr %decay.of
  %rest1.1 = load double, ptr %rest1.of
  %pull.1 = load float, ptr %pull.of
  %pull_size.1 = load float, ptr %pull_size.of
  %from_a.1 = load i1, ptr %from_a.of
  %push.1 = load float, ptr %push.of
  %lerp_coef.1 = load float, ptr %lerp_coef.of
  %rest_f64.1 = load double, ptr %rest_f64.of
  %rest.1 = load float, ptr %rest.of
  %keep.1 = load float, ptr %keep.of
  %eps_f32.1 = load float, ptr %eps_f32.of
  %last.1 = load i64, ptr %tensor.of
  %same.1 = icmp eq i64 %last.1, %tensor.2
  br i1 %same.1, label %tensor.ready, label %tensor.new
tensor.new:
  store i64 %tensor.2, ptr %tensor.of
  ; %t0 = read @step : <i64>
  %t0 = getelementptr [8 x i8], ptr %states.1, i64 1
  %t0.1 = load ptr, ptr %t0
  %t0.2 = getelementptr [8 x i8], ptr %t0.1, i64 %tensor.2
  %t0.3 = load i64, ptr %t0.2, align 1
  ; %t = add %t0, %c_1_i64 : <i64>
  %t = add i64 %t0.3, 1
  ; %beta_t = powi %beta1, %t : <f64>
  %beta_t = call double @sf_powi_f64(double %beta1.3, i64 %t)
  ; %correction = sub %c_1_f64, %beta_t : <f64>
  %correction = fsub double 0x3FF0000000000000, %beta_t
  ; %rate = div %lr, %correction : <f64>
  %rate = fdiv double %lr.3, %correction
  ; %step_size_f64 = neg %rate : <f64>
  %step_size_f64 = fneg double %rate
  ; %step_size = cast %step_size_f64 : <f32>
  %step_size = fptrunc double %step_size_f64 to float
  ; %beta_t.1 = powi %beta2, %t : <f64>
  %beta_t.1 = call double @sf_powi_f64(double %beta2.3, i64 %t)
  ; %correction.1 = sub %c_1_f64, %beta_t.1 : <f64>
  %correction.1 = fsub double 0x3FF0000000000000, %beta_t.1
  ; %correction_root_f64 = sqrt %correction.1 : <f64>
  %correction_root_f64 = call double @llvm.sqrt.f64(double %correction.1)
  ; %correction_root = cast %correction_root_f64 : <f32>
  %correction_root = fptrunc double %correction_root_f64 to float
  store i64 %t0.3, ptr %t0.of
  store i64 %t, ptr %t.of
  store double %beta_t, ptr %beta_t.of
  store double %correction, ptr %correction.of
  store double %rate, ptr %rate.of
  store double %step_size_f64, ptr %step_size_f64.of
  store float %step_size, ptr %step_size.of
  store double %beta_t.1, ptr %beta_t.1.of
  store double %correction.1, ptr %correction.1.of
  store double %correction_root_f64, ptr %correction_root_f64.of
  store float %correction_root, ptr %correction_root.of
  br label %tensor.ready
tensor.ready:
  %t0.4 = load i64, ptr %t0.of
  %t.1 = load i64, ptr %t.of
  %beta_t.2 = load double, ptr %beta_t.of
  %correction.2 = load double, ptr %correction.of
  %rate.1 = load double, ptr %rate.of
  %step_size_f64.1 = load double, ptr %step_size_f64.of
  %step_size.1 = load float, ptr %step_size.of
  %beta_t.1.1 = load double, ptr %beta_t.1.of
  %correction.1.1 = load double, ptr %correction.1.of
  %correction_root_f64.1 = load double, ptr %correction_root_f64.of
  %correction_root.1 = load float, ptr %correction_root.of
  br i1 %good.2, label %guarded, label %otherwise
guarded:
  switch i64 %signature.2, label %signature.0 [ ]
signature.0:
  %vectors = lshr i64 %length.2, 3
  %tail = and i64 %length.2, 7
  %decay.2 = insertelement <8 x float> poison, float %decay.1, i32 0
  %decay.3 = shufflevector <8 x float> %decay.2, <8 x float> poison, <8 x i32> zeroinitializer
  %from_a.2 = insertelement <8 x i1> poison, i1 %from_a.1, i32 0
  %from_a.3 = shufflevector <8 x i1> %from_a.2, <8 x i1> poison, <8 x i32> zeroinitializer
  %lerp_coef.2 = insertelement <8 x float> poison, float %lerp_coef.1, i32 0
  %lerp_coef.3 = shufflevector <8 x float> %lerp_coef.2, <8 x float> poison, <8 x i32> zeroinitializer
  %keep.2 = insertelement <8 x float> poison, float %keep.1, i32 0
  %keep.3 = shufflevector <8 x float> %keep.2, <8 x float> poison, <8 x i32> zeroinitializer
  %rest.2 = insertelement <8 x float> poison, float %rest.1, i32 0
  %rest.3 = shufflevector <8 x float> %rest.2, <8 x float> poison, <8 x i32> zeroinitializer
  %correction_root.2 = insertelement <8 x float> poison, float %correction_root.1, i32 0
  %correction_root.3 = shufflevector <8 x float> %correction_root.2, <8 x float> poison, <8 x i32> zeroinitializer
  %eps_f32.2 = insertelement <8 x float> poison, float %eps_f32.1, i32 0
  %eps_f32.3 = shufflevector <8 x float> %eps_f32.2, <8 x float> poison, <8 x i32> zeroinitializer
  %step_size.2 = insertelement <8 x float> poison, float %step_size.1, i32 0
  %step_size.3 = shufflevector <8 x float> %step_size.2, <8 x float> poison, <8 x i32> zeroinitializer
  %scratch.2 = getelementptr [8 x i8], ptr %scratch.1, i64 0
  %scratch.3 = load ptr, ptr %scratch.2
  %scratch.4 = getelementptr [4 x i8], ptr %scratch.3, i64 %scratch_base.1
  %scratch.5 = getelementptr [4 x i8], ptr %scratch.4, i64 %begin.2
  %master = getelementptr [40 x i8], ptr %pointers.1, i64 %tensor.2
  %master.1 = getelementptr [8 x i8], ptr %master, i64 2
  %master.2 = load ptr, ptr %master.1
  %master.3 = getelementptr [4 x i8], ptr %master.2, i64 %begin.2
  %exp_avg = getelementptr [40 x i8], ptr %pointers.1, i64 %tensor.2
  %exp_avg.1 = getelementptr [8 x i8], ptr %exp_avg, i64 3
  %exp_avg.2 = load ptr, ptr %exp_avg.1
  %exp_avg.3 = getelementptr [4 x i8], ptr %exp_avg.2, i64 %begin.2
  %exp_avg_sq = getelementptr [40 x i8], ptr %pointers.1, i64 %tensor.2
  %exp_avg_sq.1 = getelementptr [8 x i8], ptr %exp_avg_sq, i64 4
  %exp_avg_sq.2 = load ptr, ptr %exp_avg_sq.1
  %exp_avg_sq.3 = getelementptr [4 x i8], ptr %exp_avg_sq.2, i64 %begin.2
  br label %body
body:
  br label %pass
pass:
  %is_tail = phi i1 [ false, %body ], [ true, %tail.in ]
  %count = phi i64 [ %vectors, %body ], [ 1, %tail.in ]
  %p = phi ptr [ %scratch.5, %body ], [ %tail.0, %tail.in ]
  %p.1 = phi ptr [ %master.3, %body ], [ %tail.1, %tail.in ]
  %p.2 = phi ptr [ %exp_avg.3, %body ], [ %tail.2, %tail.in ]
  %p.3 = phi ptr [ %exp_avg_sq.3, %body ], [ %tail.3, %tail.in ]
  %whole = xor i1 %is_tail, true
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %pass.after, label %loop
loop:
  %i = phi i64 [ 0, %pass ], [ %i.next, %loop.end ]
  %at = getelementptr [32 x i8], ptr %p, i64 %i
  %at.1 = getelementptr [32 x i8], ptr %p.1, i64 %i
  %at.2 = getelementptr [32 x i8], ptr %p.2, i64 %i
  %at.3 = getelementptr [32 x i8], ptr %p.3, i64 %i
  ; fetch %g_clipped
  %g_clipped = load <8 x float>, ptr %at, align 1
  ; %w = load @master : [f32]
  %w = load <8 x float>, ptr %at.1, align 1
  ; %w_decayed = mul %w, %decay : [f32]
  %w_decayed = fmul <8 x float> %w, %decay.3
  ; %exp_avg_in = load @exp_avg : [f32]
  %exp_avg_in = load <8 x float>, ptr %at.2, align 1
  ; %exp_avg_sq_in = load @exp_avg_sq : [f32]
  %exp_avg_sq_in = load <8 x float>, ptr %at.3, align 1
  ; %lerp_base = select %from_a, %exp_avg_in, %g_clipped : [f32]
  %lerp_base = select <8 x i1> %from_a.3, <8 x float> %exp_avg_in, <8 x float> %g_clipped
  ; %distance = sub %g_clipped, %exp_avg_in : [f32]
  %distance = fsub <8 x float> %g_clipped, %exp_avg_in
  ; %m = fma %lerp_coef, %distance, %lerp_base : [f32]
  %m = call <8 x float> @llvm.fma.v8f32(<8 x float> %lerp_coef.3, <8 x float> %distance, <8 x float> %lerp_base)
  ; %kept = mul %exp_avg_sq_in, %keep : [f32]
  %kept = fmul <8 x float> %exp_avg_sq_in, %keep.3
  ; %g_share = mul %rest, %g_clipped : [f32]
  %g_share = fmul <8 x float> %rest.3, %g_clipped
  ; %v = fma %g_share, %g_clipped, %kept : [f32]
  %v = call <8 x float> @llvm.fma.v8f32(<8 x float> %g_share, <8 x float> %g_clipped, <8 x float> %kept)
  ; %v_root = sqrt %v : [f32]
  %v_root = call <8 x float> @llvm.sqrt.v8f32(<8 x float> %v)
  ; %v_corrected = div %v_root, %correction_root : [f32]
  %v_corrected = fdiv <8 x float> %v_root, %correction_root.3
  ; %denominator = add %v_corrected, %eps_f32 : [f32]
  %denominator = fadd <8 x float> %v_corrected, %eps_f32.3
  ; %numerator = mul %step_size, %m : [f32]
  %numerator = fmul <8 x float> %step_size.3, %m
  ; %update = div %numerator, %denominator : [f32]
  %update = fdiv <8 x float> %numerator, %denominator
  ; %w_new = add %w_decayed, %update : [f32]
  %w_new = fadd <8 x float> %w_decayed, %update
  ; store @exp_avg, %m if %good
  store <8 x float> %m, ptr %at.2, align 1
  ; store @exp_avg_sq, %v if %good
  store <8 x float> %v, ptr %at.3, align 1
  ; store @master, %w_new if %good
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
  %rest.4 = getelementptr [32 x i8], ptr %scratch.5, i64 %vectors
  %bytes = mul i64 %tail, 4
  call void @sf_copy(ptr %tail.0, ptr %rest.4, i64 %bytes)
  %rest.5 = getelementptr [32 x i8], ptr %master.3, i64 %vectors
  %bytes.1 = mul i64 %tail, 4
  call void @sf_copy(ptr %tail.1, ptr %rest.5, i64 %bytes.1)
  %rest.6 = getelementptr [32 x i8], ptr %exp_avg.3, i64 %vectors
  %bytes.2 = mul i64 %tail, 4
  call void @sf_copy(ptr %tail.2, ptr %rest.6, i64 %bytes.2)
  %rest.7 = getelementptr [32 x i8], ptr %exp_avg_sq.3, i64 %vectors
  %bytes.3 = mul i64 %tail, 4
  call void @sf_copy(ptr %tail.3, ptr %rest.7, i64 %bytes.3)
  br label %pass
tail.out:
  %rest.8 = getelementptr [32 x i8], ptr %master.3, i64 %vectors
  %bytes.4 = mul i64 %tail, 4
  call void @sf_copy(ptr %rest.8, ptr %tail.1, i64 %bytes.4)
  %rest.9 = getelementptr [32 x i8], ptr %exp_avg.3, i64 %vectors
  %bytes.5 = mul i64 %tail, 4
  call void @sf_copy(ptr %rest.9, ptr %tail.2, i64 %bytes.5)
  %rest.10 = getelementptr [32 x i8], ptr %exp_avg_sq.3, i64 %vectors
  %bytes.6 = mul i64 %tail, 4
  call void @sf_copy(ptr %rest.10, ptr %tail.3, i64 %bytes.6)
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

define void @sf_enter_4(ptr %ctx) #0 {
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
  ; %sum = reduce_add %g_square : f32
  %sum = getelementptr [8 x i8], ptr %results.1, i64 1
  %sum.1 = load ptr, ptr %sum
  %sum.2 = getelementptr [4 x i8], ptr %sum.1, i64 0
  %sum.3 = load float, ptr %sum.2, align 1
  ; %norm = sqrt %sum : f32
  %norm = call float @llvm.sqrt.f32(float %sum.3)
  ; %norm_finite = isfinite %norm : bool
  %norm_finite = call float @llvm.fabs.f32(float %norm)
  %norm_finite.1 = fcmp olt float %norm_finite, 0x7FF0000000000000
  ; %norm_nonfinite = not %norm_finite : bool
  %norm_nonfinite = xor i1 %norm_finite.1, true
  ; %all_finite = not %found_inf : bool
  %all_finite = xor i1 %found_inf.4, true
  ; %norm_overflow = and %norm_nonfinite, %all_finite : bool
  %norm_overflow = and i1 %norm_nonfinite, %all_finite
  ; %bad = or %found_inf, %norm_overflow : bool
  %bad = or i1 %found_inf.4, %norm_overflow
  ; %good = not %bad : bool
  %good = xor i1 %bad, true
  %found_inf.5 = getelementptr [8 x i8], ptr %scalars.1, i64 19
  store i64 0, ptr %found_inf.5
  %byte = zext i1 %found_inf.4 to i8
  store i8 %byte, ptr %found_inf.5, align 1
  %sum.4 = getelementptr [8 x i8], ptr %scalars.1, i64 22
  store i64 0, ptr %sum.4
  store float %sum.3, ptr %sum.4, align 1
  %norm.1 = getelementptr [8 x i8], ptr %scalars.1, i64 23
  store i64 0, ptr %norm.1
  store float %norm, ptr %norm.1, align 1
  %norm_finite.2 = getelementptr [8 x i8], ptr %scalars.1, i64 24
  store i64 0, ptr %norm_finite.2
  %byte.1 = zext i1 %norm_finite.1 to i8
  store i8 %byte.1, ptr %norm_finite.2, align 1
  %norm_nonfinite.1 = getelementptr [8 x i8], ptr %scalars.1, i64 25
  store i64 0, ptr %norm_nonfinite.1
  %byte.2 = zext i1 %norm_nonfinite to i8
  store i8 %byte.2, ptr %norm_nonfinite.1, align 1
  %all_finite.1 = getelementptr [8 x i8], ptr %scalars.1, i64 26
  store i64 0, ptr %all_finite.1
  %byte.3 = zext i1 %all_finite to i8
  store i8 %byte.3, ptr %all_finite.1, align 1
  %norm_overflow.1 = getelementptr [8 x i8], ptr %scalars.1, i64 27
  store i64 0, ptr %norm_overflow.1
  %byte.4 = zext i1 %norm_overflow to i8
  store i8 %byte.4, ptr %norm_overflow.1, align 1
  %bad.1 = getelementptr [8 x i8], ptr %scalars.1, i64 37
  store i64 0, ptr %bad.1
  %byte.5 = zext i1 %bad to i8
  store i8 %byte.5, ptr %bad.1, align 1
  %good.1 = getelementptr [8 x i8], ptr %scalars.1, i64 38
  store i64 0, ptr %good.1
  %byte.6 = zext i1 %good to i8
  store i8 %byte.6, ptr %good.1, align 1
  ret void
}

define void @sf_phase_4(ptr noalias readonly %ctx, i64 %begin, i64 %end) #0 {
entry:
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
  %found_inf = getelementptr [8 x i8], ptr %scalars.1, i64 19
  %found_inf.1 = load i8, ptr %found_inf, align 1
  %found_inf.2 = icmp ne i8 %found_inf.1, 0
  %sum = getelementptr [8 x i8], ptr %scalars.1, i64 22
  %sum.1 = load float, ptr %sum, align 1
  %norm = getelementptr [8 x i8], ptr %scalars.1, i64 23
  %norm.1 = load float, ptr %norm, align 1
  %norm_finite = getelementptr [8 x i8], ptr %scalars.1, i64 24
  %norm_finite.1 = load i8, ptr %norm_finite, align 1
  %norm_finite.2 = icmp ne i8 %norm_finite.1, 0
  %norm_nonfinite = getelementptr [8 x i8], ptr %scalars.1, i64 25
  %norm_nonfinite.1 = load i8, ptr %norm_nonfinite, align 1
  %norm_nonfinite.2 = icmp ne i8 %norm_nonfinite.1, 0
  %all_finite = getelementptr [8 x i8], ptr %scalars.1, i64 26
  %all_finite.1 = load i8, ptr %all_finite, align 1
  %all_finite.2 = icmp ne i8 %all_finite.1, 0
  %norm_overflow = getelementptr [8 x i8], ptr %scalars.1, i64 27
  %norm_overflow.1 = load i8, ptr %norm_overflow, align 1
  %norm_overflow.2 = icmp ne i8 %norm_overflow.1, 0
  %bad = getelementptr [8 x i8], ptr %scalars.1, i64 37
  %bad.1 = load i8, ptr %bad, align 1
  %bad.2 = icmp ne i8 %bad.1, 0
  %good = getelementptr [8 x i8], ptr %scalars.1, i64 38
  %good.1 = load i8, ptr %good, align 1
  %good.2 = icmp ne i8 %good.1, 0
  br i1 %good.2, label %start, label %end.1
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
  br label %chunk.next
chunk.present:
  br i1 %good.2, label %guarded, label %otherwise
guarded:
  switch i64 %signature.2, label %signature.0 [ ]
signature.0:
  %vectors = lshr i64 %length.2, 3
  %tail = and i64 %length.2, 7
  %master = getelementptr [40 x i8], ptr %pointers.1, i64 %tensor.2
  %master.1 = getelementptr [8 x i8], ptr %master, i64 2
  %master.2 = load ptr, ptr %master.1
  %master.3 = getelementptr [4 x i8], ptr %master.2, i64 %begin.2
  %weight = getelementptr [40 x i8], ptr %pointers.1, i64 %tensor.2
  %weight.1 = getelementptr [8 x i8], ptr %weight, i64 1
  %weight.2 = load ptr, ptr %weight.1
  %weight.3 = getelementptr [2 x i8], ptr %weight.2, i64 %begin.2
  %address = ptrtoint ptr %weight.3 to i64
  %address.1 = and i64 %address, 15
  %aligned = icmp eq i64 %address.1, 0
  %streams = and i1 %aligned, %is_large
  br label %body
body:
  br label %pass
pass:
  %is_tail = phi i1 [ false, %body ], [ true, %tail.in ]
  %count = phi i64 [ %vectors, %body ], [ 1, %tail.in ]
  %p = phi ptr [ %master.3, %body ], [ %tail.0, %tail.in ]
  %p.1 = phi ptr [ %weight.3, %body ], [ %tail.1, %tail.in ]
  %whole = xor i1 %is_tail, true
  %streams.1 = and i1 %streams, %whole
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %pass.after, label %loop
loop:
  %i = phi i64 [ 0, %pass ], [ %i.next, %loop.end ]
  %at = getelementptr [32 x i8], ptr %p, i64 %i
  %at.1 = getelementptr [16 x i8], ptr %p.1, i64 %i
  ; fetch %w_new
  %w_new = load <8 x float>, ptr %at, align 1
  ; %w_copy = cast %w_new : [f16]
  %w_copy = fcmp uno <8 x float> %w_new, %w_new
  %w_copy.1 = fptrunc <8 x float> %w_new to <8 x half>
  %w_copy.2 = bitcast <8 x half> %w_copy.1 to <8 x i16>
  %w_copy.3 = select <8 x i1> %w_copy, <8 x i16> <i16 32767, i16 32767, i16 32767, i16 32767, i16 32767, i16 32767, i16 32767, i16 32767>, <8 x i16> %w_copy.2
  ; store @weight, %w_copy if %good
  br i1 %streams.1, label %past.caches, label %through.caches
past.caches:
  store <8 x i16> %w_copy.3, ptr %at.1, align 16, !nontemporal !0
  br label %stored
through.caches:
  store <8 x i16> %w_copy.3, ptr %at.1, align 1
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
  %rest = getelementptr [32 x i8], ptr %master.3, i64 %vectors
  %bytes = mul i64 %tail, 4
  call void @sf_copy(ptr %tail.0, ptr %rest, i64 %bytes)
  br label %pass
tail.out:
  %rest.1 = getelementptr [16 x i8], ptr %weight.3, i64 %vectors
  %bytes.1 = mul i64 %tail, 2
  call void @sf_copy(ptr %rest.1, ptr %tail.1, i64 %bytes.1)
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

define void @sf_enter_5(ptr %ctx) #0 {
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
  ; %92 = const 0 : f16
  ret void
}

define void @sf_phase_5(ptr noalias readonly %ctx, i64 %begin, i64 %end) #0 {
entry:
  %tail.0 = alloca [8 x float], align 64
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
  br label %chunk.next
chunk.present:
  switch i64 %signature.2, label %signature.0 [ ]
signature.0:
  %vectors = lshr i64 %length.2, 3
  %tail = and i64 %length.2, 7
  %grad = getelementptr [40 x i8], ptr %pointers.1, i64 %tensor.2
  %grad.1 = getelementptr [8 x i8], ptr %grad, i64 0
  %grad.2 = load ptr, ptr %grad.1
  %grad.3 = getelementptr [2 x i8], ptr %grad.2, i64 %begin.2
  %address = ptrtoint ptr %grad.3 to i64
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
  %whole = xor i1 %is_tail, true
  %streams.1 = and i1 %streams, %whole
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %pass.after, label %loop
loop:
  %i = phi i64 [ 0, %pass ], [ %i.next, %loop.end ]
  %at = getelementptr [16 x i8], ptr %p, i64 %i
  ; store @grad, %92
  br i1 %streams.1, label %past.caches, label %through.caches
past.caches:
  store <8 x i16> <i16 0, i16 0, i16 0, i16 0, i16 0, i16 0, i16 0, i16 0>, ptr %at, align 16, !nontemporal !0
  br label %stored
through.caches:
  store <8 x i16> <i16 0, i16 0, i16 0, i16 0, i16 0, i16 0, i16 0, i16 0>, ptr %at, align 1
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
  br label %pass
tail.out:
  %rest = getelementptr [16 x i8], ptr %grad.3, i64 %vectors
  %bytes = mul i64 %tail, 2
  call void @sf_copy(ptr %rest, ptr %tail.0, i64 %bytes)
  br label %body.done
body.done:
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
  ; arg %max_norm : f64 = 1
  %max_norm = getelementptr [8 x i8], ptr %step_args.1, i64 0
  %max_norm.1 = load double, ptr %max_norm, align 1
  ; arg %growth_factor : f64 = 2
  %growth_factor = getelementptr [8 x i8], ptr %step_args.1, i64 1
  %growth_factor.1 = load double, ptr %growth_factor, align 1
  ; arg %backoff_factor : f64 = 0.5
  %backoff_factor = getelementptr [8 x i8], ptr %step_args.1, i64 2
  %backoff_factor.1 = load double, ptr %backoff_factor, align 1
  ; arg %growth_interval : i32 = 2000
  %growth_interval = getelementptr [8 x i8], ptr %step_args.1, i64 3
  %growth_interval.1 = load i32, ptr %growth_interval, align 1
  ; %scale = read @scale : f32
  %scale = getelementptr [8 x i8], ptr %states.1, i64 0
  %scale.1 = load ptr, ptr %scale
  %scale.2 = getelementptr [4 x i8], ptr %scale.1, i64 0
  %scale.3 = load float, ptr %scale.2, align 1
  ; %scale_f64 = cast %scale : f64
  %scale_f64 = fpext float %scale.3 to double
  ; %found_inf = reduce_any %nonfinite : bool
  %found_inf = getelementptr [8 x i8], ptr %results.1, i64 0
  %found_inf.1 = load ptr, ptr %found_inf
  %found_inf.2 = getelementptr [1 x i8], ptr %found_inf.1, i64 0
  %found_inf.3 = load i8, ptr %found_inf.2, align 1
  %found_inf.4 = icmp ne i8 %found_inf.3, 0
  ; %sum = reduce_add %g_square : f32
  %sum = getelementptr [8 x i8], ptr %results.1, i64 1
  %sum.1 = load ptr, ptr %sum
  %sum.2 = getelementptr [4 x i8], ptr %sum.1, i64 0
  %sum.3 = load float, ptr %sum.2, align 1
  ; %norm = sqrt %sum : f32
  %norm = call float @llvm.sqrt.f32(float %sum.3)
  ; %norm_finite = isfinite %norm : bool
  %norm_finite = call float @llvm.fabs.f32(float %norm)
  %norm_finite.1 = fcmp olt float %norm_finite, 0x7FF0000000000000
  ; %norm_nonfinite = not %norm_finite : bool
  %norm_nonfinite = xor i1 %norm_finite.1, true
  ; %all_finite = not %found_inf : bool
  %all_finite = xor i1 %found_inf.4, true
  ; %norm_overflow = and %norm_nonfinite, %all_finite : bool
  %norm_overflow = and i1 %norm_nonfinite, %all_finite
  ; %c_1e_06_f32 = const 1e-06 : f32
  ; %norm_plus = add %norm, %c_1e_06_f32 : f32
  %norm_plus = fadd float %norm, 0x3EB0C6F7A0000000
  ; %inv_norm = rcp %norm_plus : f32
  %inv_norm = fdiv float 0x3FF0000000000000, %norm_plus
  ; %max_norm_f32 = cast %max_norm : f32
  %max_norm_f32 = fptrunc double %max_norm.1 to float
  ; %clip_ratio = mul %inv_norm, %max_norm_f32 : f32
  %clip_ratio = fmul float %inv_norm, %max_norm_f32
  ; %c_1_f32 = const 1 : f32
  ; %clip_coef = min %clip_ratio, %c_1_f32 : f32
  %clip_coef = call float @llvm.minimum.f32(float %clip_ratio, float 0x3FF0000000000000)
  ; %bad = or %found_inf, %norm_overflow : bool
  %bad = or i1 %found_inf.4, %norm_overflow
  ; %good = not %bad : bool
  %good = xor i1 %bad, true
  ; %c_1_i64 = const 1 : i64
  ; %c_0_f32 = const 0 : f32
  ; %growth_tracker_in = read @growth_tracker : i32
  %growth_tracker_in = getelementptr [8 x i8], ptr %states.1, i64 2
  %growth_tracker_in.1 = load ptr, ptr %growth_tracker_in
  %growth_tracker_in.2 = getelementptr [4 x i8], ptr %growth_tracker_in.1, i64 0
  %growth_tracker_in.3 = load i32, ptr %growth_tracker_in.2, align 1
  ; %c_1_i32 = const 1 : i32
  ; %tracker_next = add %growth_tracker_in, %c_1_i32 : i32
  %tracker_next = add i32 %growth_tracker_in.3, 1
  ; %growth_due = le %growth_interval, %tracker_next : bool
  %growth_due = icmp sle i32 %growth_interval.1, %tracker_next
  ; %scale_times = mul %scale_f64, %growth_factor : f64
  %scale_times = fmul double %scale_f64, %growth_factor.1
  ; %scale_next = cast %scale_times : f32
  %scale_next = fptrunc double %scale_times to float
  ; %scale_finite = isfinite %scale_next : bool
  %scale_finite = call float @llvm.fabs.f32(float %scale_next)
  %scale_finite.1 = fcmp olt float %scale_finite, 0x7FF0000000000000
  ; %scale_more = select %scale_finite, %scale_next, %scale : f32
  %scale_more = select i1 %scale_finite.1, float %scale_next, float %scale.3
  ; %scale_good = select %growth_due, %scale_more, %scale : f32
  %scale_good = select i1 %growth_due, float %scale_more, float %scale.3
  ; %c_0_i32 = const 0 : i32
  ; %tracker_good = select %growth_due, %c_0_i32, %tracker_next : i32
  %tracker_good = select i1 %growth_due, i32 0, i32 %tracker_next
  ; %scale_times.1 = mul %scale_f64, %backoff_factor : f64
  %scale_times.1 = fmul double %scale_f64, %backoff_factor.1
  ; %scale_next.1 = cast %scale_times.1 : f32
  %scale_next.1 = fptrunc double %scale_times.1 to float
  ; %smallest = const 1.1754944e-38 : f32
  ; %too_small = lt %scale_next.1, %smallest : bool
  %too_small = fcmp olt float %scale_next.1, 0x3810000000000000
  ; %scale_less = select %too_small, %scale, %scale_next.1 : f32
  %scale_less = select i1 %too_small, float %scale.3, float %scale_next.1
  ; %if_finite = select %norm_overflow, %scale, %scale_good : f32
  %if_finite = select i1 %norm_overflow, float %scale.3, float %scale_good
  ; %chosen = select %found_inf, %scale_less, %if_finite : f32
  %chosen = select i1 %found_inf.4, float %scale_less, float %if_finite
  ; %if_finite.1 = select %norm_overflow, %growth_tracker_in, %tracker_good : i32
  %if_finite.1 = select i1 %norm_overflow, i32 %growth_tracker_in.3, i32 %tracker_good
  ; %chosen.1 = select %found_inf, %c_0_i32, %if_finite.1 : i32
  %chosen.1 = select i1 %found_inf.4, i32 0, i32 %if_finite.1
  ; %growth_tracker_change = sub %chosen.1, %growth_tracker_in : i32
  %growth_tracker_change = sub i32 %chosen.1, %growth_tracker_in.3
  ; %coef_used = select %bad, %c_0_f32, %clip_coef : f32
  %coef_used = select i1 %bad, float 0x0000000000000000, float %clip_coef
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
  ; %t0 = read @step : <i64>
  %t0 = getelementptr [8 x i8], ptr %states.1, i64 1
  %t0.1 = load ptr, ptr %t0
  %t0.2 = getelementptr [8 x i8], ptr %t0.1, i64 %tensor
  %t0.3 = load i64, ptr %t0.2, align 1
  ; %t = add %t0, %c_1_i64 : <i64>
  %t = add i64 %t0.3, 1
  br i1 %good, label %write, label %write.end
write:
  %step = getelementptr [8 x i8], ptr %states.1, i64 1
  %step.1 = load ptr, ptr %step
  %step.2 = getelementptr [8 x i8], ptr %step.1, i64 %tensor
  store i64 %t, ptr %step.2, align 1
  br label %write.end
write.end:
  br label %tensor.next
tensor.next:
  %next = add i64 %tensor, 1
  br label %tensor.test
tensor.end:
  %scale.4 = getelementptr [8 x i8], ptr %states.1, i64 0
  %scale.5 = load ptr, ptr %scale.4
  %scale.6 = getelementptr [4 x i8], ptr %scale.5, i64 0
  store float %chosen, ptr %scale.6, align 1
  %growth_tracker = getelementptr [8 x i8], ptr %states.1, i64 2
  %growth_tracker.1 = load ptr, ptr %growth_tracker
  %growth_tracker.2 = getelementptr [4 x i8], ptr %growth_tracker.1, i64 0
  store i32 %chosen.1, ptr %growth_tracker.2, align 1
  %growth_tracker_change.1 = getelementptr [8 x i8], ptr %states.1, i64 3
  %growth_tracker_change.2 = load ptr, ptr %growth_tracker_change.1
  %growth_tracker_change.3 = getelementptr [4 x i8], ptr %growth_tracker_change.2, i64 0
  store i32 %growth_tracker_change, ptr %growth_tracker_change.3, align 1
  %found_inf.5 = getelementptr [8 x i8], ptr %states.1, i64 4
  %found_inf.6 = load ptr, ptr %found_inf.5
  %found_inf.7 = getelementptr [1 x i8], ptr %found_inf.6, i64 0
  %byte = zext i1 %found_inf.4 to i8
  store i8 %byte, ptr %found_inf.7, align 1
  %grad_norm = getelementptr [8 x i8], ptr %states.1, i64 5
  %grad_norm.1 = load ptr, ptr %grad_norm
  %grad_norm.2 = getelementptr [4 x i8], ptr %grad_norm.1, i64 0
  store float %norm, ptr %grad_norm.2, align 1
  %clip_coef.1 = getelementptr [8 x i8], ptr %states.1, i64 6
  %clip_coef.2 = load ptr, ptr %clip_coef.1
  %clip_coef.3 = getelementptr [4 x i8], ptr %clip_coef.2, i64 0
  store float %coef_used, ptr %clip_coef.3, align 1
  %norm_overflow.1 = getelementptr [8 x i8], ptr %states.1, i64 7
  %norm_overflow.2 = load ptr, ptr %norm_overflow.1
  %norm_overflow.3 = getelementptr [1 x i8], ptr %norm_overflow.2, i64 0
  %byte.1 = zext i1 %norm_overflow to i8
  store i8 %byte.1, ptr %norm_overflow.3, align 1
  %skipped = getelementptr [8 x i8], ptr %states.1, i64 8
  %skipped.1 = load ptr, ptr %skipped
  %skipped.2 = getelementptr [1 x i8], ptr %skipped.1, i64 0
  %byte.2 = zext i1 %bad to i8
  store i8 %byte.2, ptr %skipped.2, align 1
  %loss_scale = getelementptr [8 x i8], ptr %states.1, i64 9
  %loss_scale.1 = load ptr, ptr %loss_scale
  %loss_scale.2 = getelementptr [4 x i8], ptr %loss_scale.1, i64 0
  store float %scale.3, ptr %loss_scale.2, align 1
  %next_loss_scale = getelementptr [8 x i8], ptr %states.1, i64 10
  %next_loss_scale.1 = load ptr, ptr %next_loss_scale
  %next_loss_scale.2 = getelementptr [4 x i8], ptr %next_loss_scale.1, i64 0
  store float %chosen, ptr %next_loss_scale.2, align 1
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
define internal double @sf_powi_f64(double %base, i64 %exponent) #1 {
entry:
  %negative = icmp slt i64 %exponent, 0
  %minus = sub i64 0, %exponent
  %count = select i1 %negative, i64 %minus, i64 %exponent
  br label %test
test:
  %r = phi double [ 1.0, %entry ], [ %r.next, %step ]
  %b = phi double [ %base, %entry ], [ %b.next, %step ]
  %n = phi i64 [ %count, %entry ], [ %n.next, %step ]
  %done = icmp eq i64 %n, 0
  br i1 %done, label %end, label %step
step:
  %low = and i64 %n, 1
  %odd = icmp ne i64 %low, 0
  %product = fmul double %r, %b
  %r.next = select i1 %odd, double %product, double %r
  %b.next = fmul double %b, %b
  %n.next = lshr i64 %n, 1
  br label %test
end:
  %inverse = fdiv double 1.0, %r
  %result = select i1 %negative, double %inverse, double %r
  ret double %result
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
declare <8 x float> @llvm.sqrt.v8f32(<8 x float>)
declare double @llvm.sqrt.f64(double)
declare float @llvm.fabs.f32(float)
declare float @llvm.minimum.f32(float, float)
declare float @llvm.sqrt.f32(float)
declare i64 @llvm.ctlz.i64(i64, i1)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64-v3" "target-features"="+avx2,+f16c,+fma" "prefer-vector-width"="256" }
attributes #1 = { noinline nounwind "no-builtins" "target-cpu"="x86-64-v3" "target-features"="+avx2,+f16c,+fma" "prefer-vector-width"="256" }
!0 = !{i32 1}
