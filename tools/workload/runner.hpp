// Runs a step a few times over a workload, for `stepfuse run` and the tests. Knows the public API.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

#include "tools/workload/workload.hpp"

namespace stepfuse {

// One setting of an argument: for a group or tensor by number, for a tensor by name, or for all if
// both are unset.
struct ArgSetting {
  std::string name;
  int member = -1;
  double value = 0;
  std::string tensor = "";
};

// Takes the arguments from the layout's file, then from the settings. Throws Error{usage} for an
// argument that the step does not have.
Args make_args(const Step& step, const LayoutFile& layout, const std::vector<ArgSetting>& settings);

struct RunPlan {
  Device device = Device::cpu();
  Form form = Form::fused;
  int steps = 4;
  WorkloadOptions inputs = {};
  std::vector<ArgSetting> args = {};
  // Fractional hyperparameters change between groups and steps, so that a kernel that reads the
  // wrong one cannot give the right bits.
  bool vary_args = false;
  // run in two parts: observe() gets half of the gradients, the last ones first
  bool observe = false;
  float init_scale = 65536.0F;
  bool digest = true;
};

struct RunReport {
  CompileReport compile;
  size_t workspace_bytes = 0;
  std::vector<StepStats> stats;  // one entry per step
  std::vector<double> seconds;   // one entry per step, on the host's clock
  std::string digest;            // empty unless asked for
};

// The scaler that a step with shared states needs, or null.
std::unique_ptr<LossScaler> scaler_for(const Program& program, float init_scale = 65536.0F);
// Opens the scaler's accumulation window if the program is the end of one and runs alone, without
// the steps that would count for it. Call it once the step exists.
void open_window(const Program& program, LossScaler* scaler);

// Called with 0 … 1 and a word for the current activity.
using ProgressCallback = std::function<void(double done, std::string_view what)>;

// Throws Error as Step does, and Error{device} if the step wrote outside of its arrays.
RunReport run_workload(const Program& program, const LayoutFile& layout, const Bindings& bindings,
                       const RunPlan& plan, const ProgressCallback& progress = {});

}  // namespace stepfuse
