// Plans a step: tables, variant and workspace from program and layout. Knows the compiler.
#include <chrono>

#include "compiler/passes/pass_manager.hpp"
#include "runtime/cuda/cuda_backend.hpp"
#include "runtime/step_impl.hpp"

namespace stepfuse {

StepPlan::StepPlan(const Program& source, Layout given, Form form) : layout(std::move(given)) {
  auto start = std::chrono::steady_clock::now();
  tables = make_tables(source, layout);
  variant = make_variant(optimize(source, tables.signatures), tables.signatures, form);
  workspace = plan_workspace(kernels(), tables);
  passes_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

size_t Step::workspace_bytes(const Program& program, const Layout& layout,
                             const StepOptions& options, Device::Kind kind) {
  StepPlan plan(program, layout, options.form);
  if (kind != Device::Kind::cuda) return plan.workspace.bytes;
  return plan.tables_offset() + cuda_table_bytes(plan.kernels(), plan.tables);
}

}  // namespace stepfuse
