// Compiles ahead of time what a step will need, for other machines than this one. Knows the step's plan
// and the compilers.
#pragma once

#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

namespace stepfuse {

struct AheadRequest {
  const Program& program;
  const Layout& layout;  // its storage types decide; its sizes do not
  Form form = Form::fused;
  bool observe = false;  // as StepOptions::observe
  std::string cuda_options = {};
  std::vector<std::string> targets = {};  // x86-64-v3, sm_90, compute_90
};

struct AheadKernel {
  std::string target;
  std::string step;  // the program's name; "adamw.init" initialises its buffers
  std::string form;
  size_t bytes = 0;
};

// Writes the kernels into `folder`; throws Error{usage} for a target that there is not, and what the
// compilers throw.
std::vector<AheadKernel> compile_ahead(const AheadRequest& request, const std::string& folder);

}  // namespace stepfuse
