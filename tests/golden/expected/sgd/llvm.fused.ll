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
  ; %c_0_f64 = const 0 : f64
  ret void
}

define void @sf_phase_0(ptr noalias readonly %ctx, i64 %begin, i64 %end) #0 {
entry:
  %group.of = alloca i64, align 8
  %lr.of = alloca double, align 8
  %weight_decay.of = alloca double, align 8
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
  br label %start
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
  %lr = getelementptr [16 x i8], ptr %group_args.1, i64 %group.2
  %lr.1 = getelementptr [8 x i8], ptr %lr, i64 0
  %lr.2 = load double, ptr %lr.1, align 1
  ; arg %weight_decay : {f64} = 0
  %weight_decay = getelementptr [16 x i8], ptr %group_args.1, i64 %group.2
  %weight_decay.1 = getelementptr [8 x i8], ptr %weight_decay, i64 1
  %weight_decay.2 = load double, ptr %weight_decay.1, align 1
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
  store i1 %no_decay, ptr %no_decay.of
  store float %weight_decay_f32, ptr %weight_decay_f32.of
  store float %lr_f32, ptr %lr_f32.of
  store float %descent, ptr %descent.of
  br label %group.ready
group.ready:
  %lr.3 = load double, ptr %lr.of
  %weight_decay.3 = load double, ptr %weight_decay.of
  %no_decay.1 = load i1, ptr %no_decay.of
  %weight_decay_f32.1 = load float, ptr %weight_decay_f32.of
  %lr_f32.1 = load float, ptr %lr_f32.of
  %descent.1 = load float, ptr %descent.of
  switch i64 %signature.2, label %signature.0 [ ]
signature.0:
  %vectors = lshr i64 %length.2, 3
  %tail = and i64 %length.2, 7
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
  ; %w = load @weight : [f32]
  %w = load <8 x float>, ptr %at.1, align 1
  ; %g_decayed = fma %w, %weight_decay_f32, %grad : [f32]
  %g_decayed = call <8 x float> @llvm.fma.v8f32(<8 x float> %w, <8 x float> %weight_decay_f32.3, <8 x float> %grad.4)
  ; %g_l2 = select %no_decay, %grad, %g_decayed : [f32]
  %g_l2 = select <8 x i1> %no_decay.3, <8 x float> %grad.4, <8 x float> %g_decayed
  ; %w_new = fma %g_l2, %descent, %w : [f32]
  %w_new = call <8 x float> @llvm.fma.v8f32(<8 x float> %g_l2, <8 x float> %descent.3, <8 x float> %w)
  ; store @weight, %w_new
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
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)

attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64-v3" "target-features"="+avx2,+f16c,+fma" "prefer-vector-width"="256" }
attributes #1 = { noinline nounwind "no-builtins" "target-cpu"="x86-64-v3" "target-features"="+avx2,+f16c,+fma" "prefer-vector-width"="256" }
!0 = !{i32 1}
