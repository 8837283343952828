// One step's inputs on the host: captured from a run, written to a file, run again anywhere. Knows
// the public API.
//
// STEPFUSE_RECORD=folder[:when=nonfinite|:step=N] makes every Step of the process write one record:
// of its first step with a non-finite gradient or norm (the default), or of step N. It copies all
// arrays before each step until then, so it is for hunting a bug, not for training.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

namespace stepfuse {

struct StepRecord {
  Program program;
  Form form = Form::fused;
  uint64_t index = 0;                             // of the step
  std::string gradient;                           // the buffer that is given at each run
  Layout layout;                                  // every dtype named
  std::vector<uint8_t> present;                   // [tensor]
  std::vector<std::vector<std::string>> buffers;  // [buffer][tensor] bytes; empty if absent
  std::vector<std::vector<Bits>> states;          // [state][member], shared ones too
  std::vector<std::vector<Bits>> args;            // [arg][1 or group]
};

// As they are now, before a run with these arguments. Waits for the device.
StepRecord capture(const Step::Impl& step, const Args& args);

void save_record(const std::string& path, const StepRecord& record);
StepRecord load_record(const std::string& path);  // throws Error{usage}

// Runs the recorded step on `device` in `form`; the result holds the arrays and states afterwards.
StepRecord replay(const StepRecord& record, const Device& device, Form form);

// Where two results of one record differ first, in declaration order; NaNs are equal.
struct Difference {
  std::string what;    // "@exp_avg of tensor 3 'h.0.attn' element 17", "state @step of tensor 0"
  std::string line;    // the IR line that stores it
  std::string a, b;    // the two values
  uint64_t count = 0;  // differing values in all
};
std::optional<Difference> first_difference(const StepRecord& a, const StepRecord& b);

// The first non-finite value of the recorded gradients: "tensor 3 'h.0.attn' element 17 is inf".
std::optional<std::string> first_nonfinite(const StepRecord& record);

struct ArgSource;

// What STEPFUSE_RECORD asks for. Recording never fails a run: what goes wrong is said on standard
// error, and no more is recorded.
class Recorder {
 public:
  // Nothing if the variable is not set; throws Error{usage} if it makes no sense.
  static std::optional<Recorder> from_environment();
  // Before the step: keeps its inputs if they may be wanted. Returns whether it did.
  bool before(const Step::Impl& step, const ArgSource& args, Stream stream);
  // After it, then: writes the record if the step was the one.
  void after(const Step::Impl& step, Stream stream);

 private:
  std::string folder_;
  std::optional<uint64_t> wanted_;  // else: the first non-finite one
  std::optional<StepRecord> pending_;
  template <class F>
  void guarded(F&& f);
  bool done_ = false;
};

}  // namespace stepfuse
