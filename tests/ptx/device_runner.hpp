// Runs the real CUDA kernels of a schedule on the PTX machine, over the data of the interpreter.
// Knows the emitter, NVRTC and the machine.
#pragma once

#include <memory>
#include <string>

#include "compiler/schedule/schedule.hpp"
#include "ir/step_data.hpp"
#include "tools/ptx_machine/machine.hpp"

namespace stepfuse::testing {

// Phase 0 of one tensor before the step; `stale`: of a gradient that is replaced afterwards.
struct Observation {
  size_t tensor = 0;
  bool stale = false;
};

struct DeviceRun {
  uint32_t blocks = 3;
  uint64_t seed = 1;
  uint64_t step_limit = 2'000'000'000;
  ptx::Checks checks;
  bool inline_args = false;     // arguments in the kernel's parameters instead of a table
  bool zero_workspace = false;  // so that a fault can only show in the order of accesses
  std::vector<size_t> shifts;   // [tensor] elements that its arrays stand off a 256-byte border
  uint64_t skip_elements = 0;   // the arrays really begin so much earlier (and are never touched)
  int steps = 1;                // launches on the same tables, one behind the other
  // The split phase, where it is not empty: what is observed before each step, in this order. Needs
  // a schedule of the split form; the step does what nobody observed.
  std::vector<Observation> observed;
};

class DeviceRunner {
 public:
  // From the text that was (or could have been) emitted for the schedule. Throws what NVRTC and the
  // machine's loader throw.
  DeviceRunner(Schedule schedule, const std::string& text, int arch);

  // One step in place. Throws ptx::MachineError for what the machine finds.
  ptx::Counters run(StepData& data, const DeviceRun& options) const;

  const std::string& ptx() const { return ptx_; }
  const Schedule& schedule() const { return schedule_; }

 private:
  Schedule schedule_;
  std::string ptx_;
};

// NVRTC's PTX for the text, kept for the next caller in this process.
const std::string& compile_to_ptx(const std::string& text, int arch);

}  // namespace stepfuse::testing
