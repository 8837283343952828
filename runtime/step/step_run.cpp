// The repeated calls of a step: observe, reduce, run. Knows the runtime's parts and fmt. Nothing here
// allocates, locks or waits.
#include <algorithm>

#include <fmt/format.h>

#include "ir/text/words.hpp"
#include "runtime/step/internals.hpp"
#include "runtime/step/step_impl.hpp"

namespace stepfuse {

// Makes these the gradients of tensors [first, first + gradients.size()).
void Step::Impl::set_gradients(size_t first, std::span<void* const> gradients,
                               std::string_view after) {
  std::span<const Binding::Moved> moved = plan->binding->find_moved(first, gradients);
  if (!moved.empty()) {
    refuse_in_live_graph("gradients have moved");
    if (!after.empty()) check_unmoved(moved, after);
    for (const Binding::Moved& m : moved) plan->observed[m.tensor] = 0;
    plan->binding->accept_moved();
    tables_changed_ = true;
  }
}

// Throws if a gradient that the first phase has read was moved. A tensor that was observed without a
// gradient may get one now, and is observed now.
void Step::Impl::check_unmoved(std::span<const Binding::Moved> moved,
                               std::string_view after) const {
  for (const Binding::Moved& m : moved) {
    if (plan->reduced || (plan->observed[m.tensor] != 0 && plan->binding->is_present(m.tensor))) {
      throw Error(ErrorKind::bind,
                  fmt::format("the gradient of tensor {} moved after {}()", m.tensor, after));
    }
  }
}

// Runs phase 0 on everything not yet observed, in one launch, and its fold.
void Step::Impl::finish_observing(const ArgSource& args, Stream stream) {
  uint32_t begin = 0, end = 0;
  for (size_t t = 0; t < plan->observed.size(); ++t) {
    uint32_t from = plan->tables.first_chunk[t], to = plan->tables.first_chunk[t + 1];
    if (plan->observed[t] != 0 || from == to) continue;
    if (begin == end) begin = from;
    end = to;
  }
  backend->finish_observing(inputs(args, stream), begin, end);
  tables_changed_ = false;
  // A tensor without a gradient contributes the identity until it has one.
  for (size_t t = 0; t < plan->observed.size(); ++t)
    plan->observed[t] = plan->binding->is_present(t) ? 0 : 1;
  plan->any_observed = false;
}

void Step::Impl::run(std::span<void* const> gradients, const ArgSource& args, Stream stream) {
  Busy busy(*this);
  NvtxRange range(nvtx, plan->range_name.c_str());
  check_ready();
  check_count(gradients);
  if (plan->outdated) {
    throw Error(ErrorKind::usage,
                "run(): the results of reduce() are older than a set_group(), bind(), append() or "
                "prepare(): call reduce() again, and exchange its results between ranks again");
  }
  set_gradients(0, gradients, first_half());
  int first_phase = 0;
  if (plan->any_observed) {
    finish_observing(args, stream);
    first_phase = 1;
  }
  RunInputs in = inputs(args, stream);
  if (plan->reduced) {
    in.reduced = true;
    first_phase = plan->kernels().reduced_phases;
    plan->reduced = false;
  }
  bool may_record = recorder && recorder->before(*this, args, stream);
  backend->run(in, first_phase, *ring);
  tables_changed_ = false;
  if (may_record) recorder->after(*this, stream);
  ++next_index_;
}

// Returns the call whose gradients must not move before the next one; empty if there is none.
std::string_view Step::Impl::first_half() const {
  return plan->reduced ? "reduce" : plan->any_observed ? "observe" : "";
}

void Step::Impl::check_count(std::span<void* const> gradients) const {
  if (plan->binding->gradient_buffer() < 0 || gradients.size() == plan->layout.size()) return;
  throw Error(ErrorKind::bind, fmt::format("run() was given {}; the layout has {} (pass "
                                           "nullptr for a tensor without a gradient)",
                                           count_words(gradients.size(), "gradient"),
                                           count_words(plan->layout.size(), "tensor")));
}

void Step::Impl::check_observes(std::string_view what) const {
  if (!options.observe) {
    throw Error(ErrorKind::usage,
                fmt::format("this step was not made for {}(): set StepOptions::observe, so that "
                            "prepare() compiles what it needs",
                            what));
  }
  if (plan->kernels().phases.size() < 2) {
    throw Error(ErrorKind::usage, fmt::format("step @{} has one phase: there is nothing to {} "
                                              "before run()",
                                              program.name, what));
  }
}

void Step::Impl::observe(size_t first, std::span<void* const> gradients, const ArgSource& args,
                         Stream stream) {
  Busy busy(*this);
  NvtxRange range(nvtx, plan->observe_name.c_str());
  check_ready();
  check_observes("observe");
  set_gradients(first, gradients, "");
  if (gradients.empty()) return;
  backend->observe(inputs(args, stream), plan->tables.first_chunk[first],
                   plan->tables.first_chunk[first + gradients.size()]);
  std::fill_n(plan->observed.begin() + static_cast<std::ptrdiff_t>(first), gradients.size(),
              uint8_t{1});
  tables_changed_ = false;
  plan->any_observed = true;
  plan->reduced = plan->outdated = false;
}

void Step::Impl::reduce(std::span<void* const> gradients, const ArgSource& args, Stream stream) {
  Busy busy(*this);
  NvtxRange range(nvtx, plan->reduce_name.c_str());
  check_ready();
  check_observes("reduce");
  check_count(gradients);
  set_gradients(0, gradients, first_half());
  int done = 0;
  if (plan->any_observed) {
    finish_observing(args, stream);
    done = 1;
  }
  backend->run_phases(inputs(args, stream), done, plan->kernels().reduced_phases);
  tables_changed_ = false;
  plan->reduced = true;
  plan->outdated = false;
}

namespace {

// Returns the marker before which all reductions are the pipeline's. Recipes always write it.
ValueId optimizer_stage(const Program& p) {
  for (ValueId v = 0; v < p.size(); ++v) {
    bool stage = p[v].op == Op::stage && p.stages[static_cast<size_t>(p[v].slot)] == "optimizer";
    if (stage) return v;
  }
  return p.size();
}

}  // namespace

std::string_view name(Reduction reduction) { return info(op_of(reduction)).name; }

Partials Step::Impl::partials() const {
  const WorkspacePlan& w = plan->workspace;
  const KernelPlan& kernels = plan->kernels();
  Partials out{plan->block->base() + w.partials_at, w.partials_bytes, {}};
  const ValueId optimizer = optimizer_stage(plan->variant.program);
  for (size_t i : w.partials) {
    const plan::Reduction& r = kernels.reductions[i];
    out.all.push_back({.name = plan->variant.program.names[static_cast<size_t>(r.value)],
                       .op = to_reduction(r.op),
                       .dtype = r.dtype,
                       .count = member_count(r.to, plan->layout),
                       .offset = w.results[i] - w.partials_at,
                       .pieces = plan->block->base() + w.slots[i],
                       .piece_count = plan->tables.chunks.size(),
                       .pipeline = r.value < optimizer});
  }
  return out;
}

const Partial& Partials::at(std::string_view wanted) const {
  std::string known;
  for (const Partial& p : all) {
    if (p.name == wanted) return p;
    known += " " + p.name;
  }
  throw Error(ErrorKind::usage,
              fmt::format("the step does not reduce '{}' over its gradients; it reduces{}",
                          wanted.substr(0, 80), known.empty() ? " nothing" : known));
}

}  // namespace stepfuse
