// Collects the data of `stepfuse explain`. Knows the compiler and the runtime's compilers.
#include "tools/cli/explanation.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "compiler/passes/pass_manager.hpp"
#include "runtime/cpu/cpu_kernel.hpp"
#include "runtime/cpu/llvm_compiler.hpp"
#include "runtime/cuda/cuda_backend.hpp"
#include "runtime/cuda/step_code.hpp"
#include "runtime/step/layout_check.hpp"
#include "runtime/tables/tables.hpp"
#include "runtime/tables/workspace.hpp"

namespace stepfuse::cli {
namespace {

class Stopwatch {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

CpuCompile compile_for_cpu(const KernelPlan& plan) {
  CpuCompile c;
  try {
    CpuTarget target = host_cpu_target();
    Stopwatch watch;
    std::string text = emit_llvm(plan, target);
    c.emit_ms = watch.ms();
    CpuObject object = compile_cpu(text, target);
    c.parse_ms = object.times.parse_ms;
    c.optimize_ms = object.times.passes_ms;
    c.codegen_ms = object.times.codegen_ms;
    c.load_ms = CpuKernel::load(object.bytes, plan)->load_ms();
  } catch (const Error& e) {
    c.problem = e.what();
  }
  return c;
}

CudaCompile compile_for_gpu(const Variant& variant, int arch) {
  CudaCompile c;
  c.arch = arch;
  try {
    cuda::StepCode code = cuda::compile_fresh(variant, {.arch = arch});
    c.emit_ms = code.emit_ms;
    c.nvrtc_ms = code.compile_ms;
    c.kernels = std::move(code.kernels);
  } catch (const Error& e) {
    c.problem = e.what();
  }
  return c;
}

// Averages over signatures, weighted by their elements; in an empty layout all weigh the same.
double weighted(const std::vector<Traffic>& traffic, const std::vector<uint64_t>& elements,
                double (Traffic::*bytes)() const) {
  double sum = 0;
  double weight = 0;
  bool empty = std::all_of(elements.begin(), elements.end(), [](uint64_t n) { return n == 0; });
  for (size_t s = 0; s < traffic.size(); ++s) {
    double n = empty ? 1 : static_cast<double>(elements[s]);
    sum += n * (traffic[s].*bytes)();
    weight += n;
  }
  return sum / weight;
}

}  // namespace

int CudaCompile::max_registers() const {
  int most = 0;
  for (const cuda::KernelResources& k : kernels) most = std::max(most, k.registers);
  return most;
}

int CudaCompile::spilled_bytes() const {
  int sum = 0;
  for (const cuda::KernelResources& k : kernels) sum += k.spill_store_bytes + k.spill_load_bytes;
  return sum;
}

Explanation explain(const Source& source, const LayoutFile& file, const ExplainOptions& options,
                    const Tell& tell) {
  Explanation e;
  Layout layout = make_layout(file, source.program, source.bindings);
  check_step(source.program, {});
  LayoutCheck(source.program).add(layout);
  StepTables tables = make_tables(source.program, layout);
  e.title = source.title;
  e.layout = file.name;
  e.tensors = layout.size();
  e.parameters = layout.element_count();
  e.elements.assign(tables.signatures.size(), 0);
  for (size_t t = 0; t < layout.size(); ++t) {
    e.elements[tables.signature_of[t]] += layout.tensors()[t].elements;
  }
  for (Form form : {Form::fused, Form::split, Form::unfused}) {
    FormExplanation f;
    f.form = form;
    Stopwatch watch;
    f.variant = make_variant(optimize(source.program, tables.signatures), tables.signatures, form);
    const KernelPlan& plan = f.variant.plan;
    f.passes_ms = watch.ms();
    f.launches = launch_count(plan);
    f.grid_barriers = barrier_count(plan);
    for (size_t s = 0; s < tables.signatures.size(); ++s) {
      f.traffic.push_back(traffic_of(plan, s));
    }
    f.bytes_per_parameter = weighted(f.traffic, e.elements, &Traffic::bytes);
    f.skipped_bytes_per_parameter = weighted(f.traffic, e.elements, &Traffic::skipped_bytes);
    // Step::workspace_bytes() would make the tables again, which are large for a large layout.
    WorkspacePlan workspace = plan_workspace(plan, tables);
    f.workspace_bytes = workspace.bytes;
    f.cuda_workspace_bytes = workspace.tables_offset() + cuda_table_bytes(plan, tables);
    if (form == Form::split && f.launches == e.forms[0].launches) {  // the kernel is the same
      f.cpu = e.forms[0].cpu;
      f.cuda = e.forms[0].cuda;
    } else if (options.compile) {
      tell(fmt::format("compiling {} for this CPU", name(form)));
      f.cpu = compile_for_cpu(plan);
      for (int arch : options.archs) {
        tell(fmt::format("compiling {} for sm_{}", name(form), arch));
        f.cuda.push_back(compile_for_gpu(f.variant, arch));
      }
    }
    e.forms.push_back(std::move(f));
  }
  return e;
}

}  // namespace stepfuse::cli
