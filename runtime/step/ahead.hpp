// Compiles the kernels of a step ahead of time, for other machines. Knows the step's plan and the
// compilers.
#pragma once

#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

namespace stepfuse {

struct AheadRequest {
  const Program& program;
  const Layout& layout;  // only its storage types matter, not its sizes
  Form form = Form::fused;
  bool observe = false;  // as StepOptions::observe
  std::string cuda_options = {};
  std::vector<std::string> targets = {};  // for example x86-64-v3, sm_90, compute_90
};

struct AheadKernel {
  std::string target;
  std::string step;  // the program's name; "adamw.init" initialises its buffers
  std::string form;
  size_t bytes = 0;
};

// Writes the kernels into `folder`. Throws Error{usage} for an unknown target, and Error{device} if a
// compiler is missing or does not know a target; nothing is written then. Also throws the compilers' errors.
std::vector<AheadKernel> compile_ahead(const AheadRequest& request, const std::string& folder);

}  // namespace stepfuse
