// Gradient accumulation in f32. Knows ir only.
#include "ir/recipes/accumulate.hpp"

#include "ir/recipes/loss_scale.hpp"

namespace stepfuse::recipes {
namespace {

constexpr Type kStepI32 = {DType::i32, Domain::step};

struct Window {
  StateRef micro_batches;
  StateRef nonfinite;
};
Window declare_window(Builder& b) {
  return {b.state("micro_batches", kStepI32, true),
          b.state("nonfinite_micro_batch", kStepI32, true, -1)};
}

}  // namespace

Program make_accumulate(const RecipeOptions& o) {
  Builder b("accumulate");
  BufferRef grad = b.buffer("grad", o.grad, o.zero_grad ? Access::inout : Access::in);
  BufferRef sum = b.buffer("grad_sum", DType::f32, Access::inout);
  b.init_zero(sum);
  Window window = declare_window(b);

  Value g = b.cast(b.load(grad).named("grad"), DType::f32);
  Value total = (b.load(sum).named("sum") + g).named("sum_new");
  Value bad = b.reduce(Op::reduce_any, !isfinite(g)).named("found_inf");
  Value index = b.read(window.micro_batches).named("index");
  Value first = b.read(window.nonfinite).named("first_nonfinite");
  Value is_first = (bad & (first < b.constant(DType::i32, 0))).named("is_first");

  b.store(sum, total);
  if (o.zero_grad) b.store(grad, b.cast_to_buffer(b.constant(DType::f32, 0), grad));
  b.write(window.micro_batches, index + b.constant(DType::i32, 1));
  b.write(window.nonfinite, b.select(is_first, index, first).named("first_nonfinite_new"));
  b.write(b.report("found_inf", {DType::boolean, Domain::step}), bad);
  return b.finish();
}

void close_window(Context& c, Verdict& v) {
  if (!c.settings.options.window) return;
  Window window = declare_window(c.b);
  Value count = c.b.read(window.micro_batches).named("micro_batches");
  Value first = c.b.read(window.nonfinite).named("nonfinite_micro_batch");
  // An infinity stays one in the sum, or becomes NaN; the flag says so even where the sums were
  // clamped or the tensor is absent in this step.
  Value bad = (c.i32(0) <= first).named("window_nonfinite");
  v.found_inf = v.found_inf ? (v.found_inf | bad).named("found_inf_in_window") : bad;
  c.b.write(window.micro_batches, c.i32(0));
  c.b.write(window.nonfinite, c.i32(-1));
  c.b.write(c.b.report("micro_batches_done", kStepI32), count);
  c.b.write(c.b.report("first_nonfinite_micro_batch", kStepI32), first);
}

}  // namespace stepfuse::recipes
