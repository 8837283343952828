// The data of `stepfuse explain`. Knows the compiler, the runtime's compilers and the workload's
// files.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/plan/traffic.hpp"
#include "compiler/variant.hpp"
#include "runtime/cuda/resources.hpp"
#include "tools/cli/source.hpp"
#include "tools/sass/report.hpp"

namespace stepfuse::cli {

struct CpuCompile {
  std::string problem;  // set if nothing was compiled: the reason
  double emit_ms = 0, parse_ms = 0, optimize_ms = 0, codegen_ms = 0, load_ms = 0;
  double total_ms() const { return emit_ms + parse_ms + optimize_ms + codegen_ms + load_ms; }
};

struct CudaCompile {
  std::string problem;
  int arch = 0;
  double emit_ms = 0, nvrtc_ms = 0;
  std::vector<cuda::KernelResources> kernels;
  int max_registers() const;
  int spilled_bytes() const;  // stores and loads, summed over the kernels
};

struct FormExplanation {
  Form form = Form::fused;
  Variant variant;
  int launches = 0;
  int grid_barriers = 0;
  std::vector<Traffic> traffic;    // [signature]
  double bytes_per_parameter = 0;  // averaged over the layout's elements
  double skipped_bytes_per_parameter = 0;
  size_t workspace_bytes = 0;       // on the CPU
  size_t cuda_workspace_bytes = 0;  // on a GPU, tables included
  double passes_ms = 0;             // stepfuse's own passes, scheduling included
  CpuCompile cpu;
  std::vector<CudaCompile> cuda;  // [arch]
};

struct Explanation {
  std::string title;
  std::string layout;
  uint64_t tensors = 0;
  uint64_t parameters = 0;
  std::vector<uint64_t> elements;      // [signature]
  std::vector<FormExplanation> forms;  // fused, split, unfused
  const FormExplanation& unfused() const { return forms.back(); }
};

struct ExplainOptions {
  std::vector<int> archs;  // to compile for
  bool compile = true;
};

using Tell = std::function<void(std::string_view)>;

Explanation explain(const Source& source, const LayoutFile& file, const ExplainOptions& options,
                    const Tell& tell);

std::string explanation_text(const Explanation& e);
// `machine_code` holds one report per arch, for the first form.
std::string explanation_json(const Explanation& e,
                             const std::vector<sass::Report>& machine_code = {});

}  // namespace stepfuse::cli
