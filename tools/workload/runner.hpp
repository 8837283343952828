// Runs a step a few times over a workload: what `stepfuse run` and the tests do. Knows the public API.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

#include "tools/workload/workload.hpp"

namespace stepfuse {

// Of one group or tensor, by number or a tensor by its name; -1 and "": for all.
struct ArgSetting {
  std::string name;
  int member = -1;
  double value = 0;
  std::string tensor = "";
};

// What the layout's file says of its tensors, then the settings. Throws Error{usage} for what the step
// does not have.
Args make_args(const Step& step, const LayoutFile& layout, const std::vector<ArgSetting>& settings);

struct RunPlan {
  Device device = Device::cpu();
  Form form = Form::fused;
  int steps = 4;
  WorkloadOptions inputs = {};
  std::vector<ArgSetting> args = {};
  // Hyperparameters with a fraction change from group to group and from step to step, so that a
  // kernel that takes a wrong one cannot have the right bits.
  bool vary_args = false;
  bool observe = false;  // split phase: gradients are handed over in two parts, the last ones first
  float init_scale = 65536.0F;
  bool digest = true;
};

struct RunReport {
  CompileReport compile;
  size_t workspace_bytes = 0;
  std::vector<StepStats> stats;  // of each step
  std::vector<double> seconds;   // of each step, on the host's clock
  std::string digest;            // if asked for
};

// The scaler that a step with shared states needs, else null.
std::unique_ptr<LossScaler> scaler_for(const Program& program, float init_scale = 65536.0F);
// For the end of an accumulation window that is run by itself, where no other step counts for it:
// to be called once the step stands.
void open_window(const Program& program, LossScaler* scaler);

// Called with 0 … 1 and a word for what is being done.
using ProgressCallback = std::function<void(double done, std::string_view what)>;

// Throws Error as Step does, and Error{device} if the step wrote outside of its arrays.
RunReport run_workload(const Program& program, const LayoutFile& layout, const Bindings& bindings,
                       const RunPlan& plan, const ProgressCallback& progress = {});

}  // namespace stepfuse
