// Plans a step: tables, variant and workspace from program and layout. Knows the compiler.
#include <chrono>

#include "compiler/passes/pass_manager.hpp"
#include "runtime/cuda/cuda_backend.hpp"
#include "runtime/step/step_impl.hpp"

namespace stepfuse {

namespace {

// Whether the phases that observe() and reduce() run store to the caller's arrays. They must not: observing
// twice would store twice, and between the phases the caller must see the arrays before the step.
bool stores_observed(const KernelPlan& plan) {
  for (int32_t p = 0; p < plan.reduced_phases && p < std::ssize(plan.phases); ++p) {
    for (const plan::Body& body : plan.phase(p).bodies) {
      for (const plan::ArrayUse& use : body.arrays) {
        if (use.stored && !plan.array(use).scratch()) return true;
      }
    }
  }
  return false;
}

}  // namespace

StepPlan::StepPlan(const Program& source, Layout given, Form form, bool observed)
    : layout(std::move(given)) {
  auto start = std::chrono::steady_clock::now();
  tables = make_tables(source, layout);
  Program program = optimize(source, tables.signatures);
  variant = make_variant(program, tables.signatures, form);
  if (observed && stores_observed(variant.plan)) {
    variant = make_variant(program, tables.signatures, Form::split);
  }
  workspace = plan_workspace(kernels(), tables);
  passes_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

size_t Step::workspace_bytes(const Program& program, const Layout& layout,
                             const StepOptions& options, Device::Kind kind) {
  check_step(program, options);
  LayoutCheck(program).add(layout);
  StepPlan plan(program, layout, options.form, options.observe);
  if (kind != Device::Kind::cuda) return plan.workspace.bytes;
  return plan.workspace.tables_offset() + cuda_table_bytes(plan.kernels(), plan.tables);
}

}  // namespace stepfuse
