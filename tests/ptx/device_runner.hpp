// Runs the real CUDA kernels of a variant on the PTX machine, over the data of the interpreter.
// Knows the emitter, NVRTC and the machine.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/variant.hpp"
#include "ir/semantics/step_data.hpp"
#include "tools/ptx_machine/machine.hpp"

namespace stepfuse::testing {

// Phase 0 of one tensor before the step; `stale`: of a gradient that is replaced afterwards.
struct Observation {
  size_t tensor = 0;
  bool stale = false;
};

// The host as it reads finished steps' reports while kernels run, one load at a time: the number of
// the next record, its values, the number again; what has changed meanwhile is dropped.
class ReportReader {
 public:
  ReportReader(const KernelPlan& plan, uint32_t capacity);

  ptx::HostReader reader();
  std::vector<uint64_t>& memory() { return memory_; }
  uint32_t capacity() const { return capacity_; }
  // [step] the raw values of its record; those that were gone before they were read are missing.
  const std::map<uint64_t, std::vector<uint64_t>>& kept() const { return kept_; }

 private:
  void step(ptx::HostView& host);

  size_t width_;
  uint32_t capacity_;
  std::vector<uint64_t> memory_;
  std::map<uint64_t, std::vector<uint64_t>> kept_;
  uint64_t next_ = 0;
  size_t at_ = 0;  // the word of the record that is read next; width_: the number again
  uint64_t number_ = 0;
  std::vector<uint64_t> values_;
};

struct DeviceRun {
  uint32_t blocks = 3;
  uint32_t split = 0;  // DeviceContext::split
  uint64_t seed = 1;
  uint64_t step_limit = 2'000'000'000;
  ptx::Checks checks;
  bool cooperative = true;
  bool incoherent = false;          // blocks with caches of their own
  ReportReader* reports = nullptr;  // reads meanwhile
  bool inline_args = false;         // arguments in the kernel's parameters instead of a table
  bool zero_workspace = false;      // so that a fault can only show in the order of accesses
  std::vector<size_t> shifts;       // [tensor] elements that its arrays stand off a 256-byte border
  uint64_t skip_elements = 0;  // the arrays really begin so much earlier (and are never touched)
  int steps = 1;               // launches on the same tables, one behind the other
  // The split phase, where it is not empty: what is observed before each step, in this order. Needs
  // a variant of the split form; the step does what nobody observed.
  std::vector<Observation> observed;
};

class DeviceRunner {
 public:
  // From the text that was (or could have been) emitted for the variant. Throws what NVRTC and the
  // machine's loader throw.
  DeviceRunner(Variant variant, const std::string& text, int arch);

  // One step in place. Throws ptx::MachineError for what the machine finds.
  ptx::Counters run(StepData& data, const DeviceRun& options) const;

  const std::string& ptx() const { return ptx_; }
  const Variant& variant() const { return variant_; }

 private:
  Variant variant_;
  std::string ptx_;
};

// NVRTC's PTX for the text, kept for the next caller in this process.
const std::string& compile_to_ptx(const std::string& text, int arch);

}  // namespace stepfuse::testing
