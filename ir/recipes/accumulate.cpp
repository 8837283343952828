// Accumulates gradients in f32. Knows ir only.
#include "ir/recipes/accumulate.hpp"

#include "ir/recipes/gradient.hpp"
#include "ir/recipes/loss_scale.hpp"

namespace stepfuse::recipes {
namespace {

constexpr Type kStepI32 = {DType::i32, per::step};

StateRef declare_count(Builder& b) { return b.state("micro_batches", kStepI32, true); }
StateRef declare_nonfinite(Builder& b) {
  return b.state("nonfinite_micro_batch", kStepI32, true, -1);
}

}  // namespace

Value window_size(Context& c) {
  c.micro_batches_state = declare_count(c.b);
  c.micro_batches = c.b.read(c.micro_batches_state).named("micro_batches");
  Value at_least_one = max(c.micro_batches, c.i32(1)).named("micro_batches_or_one");
  Value counted = c.b.cast(at_least_one, DType::f64).named("counted");
  Value given = c.arg("accumulation");
  return c.b.select((c.f64(0) < given).named("is_given"), given, counted).named("window_size");
}

Program make_accumulate(const RecipeOptions& o) {
  Builder b("accumulate");
  Value scale_inv;
  if (o.grad_scale) {
    ArgSpec a = grad_scale_arg();
    scale_inv = b.arg(a.name, a.type, a.value);
  }
  BufferRef grad = b.buffer("grad", o.grad, o.zero_grad ? Access::inout : Access::in);
  BufferRef sum = b.buffer("grad_sum", DType::f32, Access::inout);
  b.init_zero(sum);
  StateRef micro_batches = declare_count(b);
  StateRef nonfinite = declare_nonfinite(b);

  Value g = b.cast(b.load(grad).named("grad"), DType::f32);
  if (scale_inv) g = (g * scale_inv).named("grad_scaled");
  Value total = (b.load(sum).named("sum") + g).named("sum_new");
  Value bad = b.reduce(Op::reduce_any, !isfinite(g)).named("found_inf");
  Value index = b.read(micro_batches).named("index");
  Value first = b.read(nonfinite).named("first_nonfinite");
  Value is_first = (bad & (first < b.constant(DType::i32, 0))).named("is_first");

  b.store(sum, total);
  if (o.zero_grad) b.store(grad, b.cast_to_buffer(b.constant(DType::f32, 0), grad));
  b.write(micro_batches, index + b.constant(DType::i32, 1));
  b.write(nonfinite, b.select(is_first, index, first).named("first_nonfinite_new"));
  b.write(b.report("found_inf", {DType::boolean, per::step}), bad);
  return b.finish();
}

void close_window(Context& c, Verdict& v) {
  if (!c.settings.options.window) return;
  StateRef nonfinite = declare_nonfinite(c.b);
  Value first = c.b.read(nonfinite).named("nonfinite_micro_batch");
  // An infinity stays in the sum or becomes NaN. The flag records it even if the sums were clamped or the
  // tensor is absent in this step.
  Value bad = (c.i32(0) <= first).named("window_nonfinite");
  v.found_inf = v.found_inf ? (v.found_inf | bad).named("found_inf_in_window") : bad;
  c.b.write(c.micro_batches_state, c.i32(0));
  c.b.write(nonfinite, c.i32(-1));
  c.b.write(c.b.report("micro_batches_done", kStepI32), c.micro_batches);
  c.b.write(c.b.report("first_nonfinite_micro_batch", kStepI32), first);
}

}  // namespace stepfuse::recipes
