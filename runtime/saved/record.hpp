// The inputs of one step on the host: captured from a run, written to a file, and run again anywhere. Knows
// the public API.
//
// STEPFUSE_RECORD=folder[:when=nonfinite|:step=N] makes every Step of the process write one record: that of
// its first step with a non-finite gradient or norm (the default), or that of step N. Until then it copies
// all arrays before each step. It is meant for finding a bug, not for training.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

namespace stepfuse {

struct StepRecord {
  Program program;
  Form form = Form::fused;
  uint64_t index = 0;                             // the step's
  std::string gradient;                           // the buffer that the caller passes to each run
  Layout layout;                                  // with every dtype named
  std::vector<uint8_t> present;                   // [tensor]
  std::vector<std::vector<std::string>> buffers;  // [buffer][tensor] bytes; empty if absent
  std::vector<std::vector<Bits>> states;          // [state][member], shared states too
  std::vector<std::vector<Bits>> args;            // [arg][1 or group]
};

// Captures the step as it is now, before a run with these arguments. Waits for the device.
StepRecord capture(const Step::Impl& step, const Args& args);

void save_record(const std::string& path, const StepRecord& record);
StepRecord load_record(const std::string& path);  // throws Error{usage}

// Runs the recorded step on `device` in `form`; the result holds the arrays and states afterwards.
StepRecord replay(const StepRecord& record, const Device& device, Form form);

// The first difference between two results of one record, in declaration order. NaNs count as equal.
struct Difference {
  std::string what;    // "@exp_avg of tensor 3 'h.0.attn' element 17", "state @step of tensor 0"
  std::string line;    // the IR line that stores it
  std::string a, b;    // the two values
  uint64_t count = 0;  // number of differing values
};
std::optional<Difference> first_difference(const StepRecord& a, const StepRecord& b);

// Returns the first non-finite value of the recorded gradients: "tensor 3 'h.0.attn' element 17 is inf".
std::optional<std::string> first_nonfinite(const StepRecord& record);

struct ArgSource;

// Writes the record that STEPFUSE_RECORD asks for. Recording never fails a run: an error is printed to
// standard error, and recording stops.
class Recorder {
 public:
  // Returns nothing if the variable is not set; throws Error{usage} if its value is invalid.
  static std::optional<Recorder> from_environment();
  // Call it before the step. Keeps the inputs if they may be wanted, and returns whether it did.
  bool before(const Step::Impl& step, const ArgSource& args, Stream stream);
  // Call it after the step if before() returned true. Writes the record if this was the wanted step.
  void after(const Step::Impl& step, Stream stream);

 private:
  std::string folder_;
  std::optional<uint64_t> wanted_;  // if empty, the first non-finite step is wanted
  std::optional<StepRecord> pending_;
  template <class F>
  void guarded(F&& f);
  bool done_ = false;
};

}  // namespace stepfuse
