// What a Step is made of: plan, memory, binding, backend. Knows the runtime's parts.
#pragma once

#include <atomic>
#include <memory>

#include <stepfuse/stepfuse.hpp>

#include "runtime/device/backend.hpp"
#include "runtime/device/stats_ring.hpp"
#include "runtime/process/hidden.hpp"
#include "runtime/process/nvtx.hpp"
#include "runtime/saved/record.hpp"
#include "runtime/step/args.hpp"
#include "runtime/step/binding.hpp"
#include "runtime/step/layout_check.hpp"
#include "runtime/tables/tables.hpp"
#include "runtime/tables/workspace.hpp"
#include "runtime/tables/workspace_block.hpp"

namespace stepfuse {

// The part of a step that append() makes anew: everything that follows from program and layout.
struct StepPlan {
  // `observed`: of a step that observe() and reduce() are called of. Where `form` would store in
  // phases that these run, it is the split form.
  StepPlan(const Program& source, Layout layout, Form form, bool observed);
  // Binding holds references into the plan: it stays where it was made.
  StepPlan(const StepPlan&) = delete;
  StepPlan& operator=(const StepPlan&) = delete;

  Layout layout;
  StepTables tables;
  Variant variant;
  const KernelPlan& kernels() const { return variant.plan; }
  WorkspacePlan workspace;
  double passes_ms = 0;
  // Where a backend's own tables begin in the step's block.
  size_t tables_offset() const { return (workspace.bytes + 255) / 256 * 256; }
};

// Where a run takes its arguments from.
struct ArgSource {
  const Args* values = nullptr;
  const uint64_t* block = nullptr;  // in device memory, if not by value
};

// Of a step, what append() replaces as a whole.
struct STEPFUSE_HIDDEN StepParts {
  std::unique_ptr<StepPlan> plan;
  std::unique_ptr<Binding> binding;
  std::unique_ptr<WorkspaceBlock> block;
  std::vector<void*> states_;               // [state]
  std::vector<uint8_t> observed_;           // [tensor] what its gradient leaves of phase 0 is there
  std::string range_name;                   // of this step on a profiler's timeline
  std::string observe_name_, reduce_name_;  // its parts there
  bool any_observed_ = false;
  bool reduced_ = false;   // by reduce(), since the last run
  bool outdated_ = false;  // what reduce() left is of before a change: it has to be called again
  bool prepared_ = false;
  bool args_set_ = false;  // the step's own argument block is filled
};

class STEPFUSE_HIDDEN Step::Impl : public StepParts {
 public:
  class Busy;  // one call at a time, detected
  Impl(Program program, Layout layout, const Device& device, const StepOptions& options);
  // Waits for the device: what this step was given may be taken back afterwards.
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void prepare();
  void bind(std::string_view buffer, std::span<void* const> pointers);
  void init_state(size_t first_tensor, Stream stream);
  void adopt_state();
  void run(std::span<void* const> gradients, const ArgSource& args, Stream stream);
  void observe(size_t first, std::span<void* const> gradients, const ArgSource& args,
               Stream stream);
  void reduce(std::span<void* const> gradients, const ArgSource& args, Stream stream);
  Partials partials() const;
  void append(TensorSpec tensor);
  // Takes over what was appended since the last call of anything else.
  void settle() {
    if (grown_) grow();
  }
  void set_group(size_t tensor, int group);

  // For whatever the step has under way, and the other steps of its scaler.
  void wait() const;
  // Those that the step only reads are written by the caller.
  enum class States : uint8_t { all, written };
  void initialise_states(size_t first_tensor, States which, Stream stream);
  std::vector<Bits> read_state(std::string_view name, Stream stream) const;
  void write_state(std::string_view name, std::span<const Bits> values, Stream stream);
  std::optional<StepStats> newest() const;
  StepStats to_stats(const StatsRing::Record& record) const;
  // The numbers of runs, which go on after a checkpoint was loaded.
  uint64_t first_index() const { return resumed_at_; }
  uint64_t next_index() const { return number_of(next_index_); }
  void continue_at(uint64_t index) {
    resumed_own_ = next_index_;
    resumed_at_ = index;
  }

  Args make_args() const;
  ArgSource by_value(const Args& args) const;
  ArgSource resident() const;
  ArgSource callers(DeviceArgs args) const;
  void set_args(const Args& args, Stream stream);
  void* device_arg(ArgId arg, int member) const;
  size_t arg_offset(ArgId arg, int member) const;
  void write_args(const Args& args, std::span<uint64_t> words) const;
  Args fetch_args(const ArgSource& source, Stream stream) const;

  size_t block_bytes() const;
  size_t state_index(std::string_view name) const;
  void* state_pointer(size_t state) const { return states_[state]; }
  Bits arg_bits(const Args& args, size_t arg, size_t member) const;
  void set_arg_bits(Args& args, size_t arg, size_t member, Bits value) const;

  Program program;  // as given
  Device device;
  StepOptions options;
  std::unique_ptr<Backend> backend;
  std::shared_ptr<const Args::Shape> shape;
  std::unique_ptr<StatsRing> ring;
  std::optional<Recorder> recorder;
  const nvtx::Functions& nvtx = nvtx::functions();
  CompileReport report;

 private:
  void grow();
  void forget_phases();
  void allocate();
  void attach();
  void fit_ring();
  void name_ranges();
  void check_ready();
  void check_observes(std::string_view what) const;
  void check_count(std::span<void* const> gradients) const;
  std::string_view first_half() const;
  void check_unmoved(std::span<const Binding::Moved> moved, std::string_view after) const;
  void finish_observing(const ArgSource& args, Stream stream);
  void set_gradients(size_t first, std::span<void* const> gradients, std::string_view after);
  void refuse_in_live_graph(std::string_view what) const;
  void check_shape(const Args& args) const;
  uint64_t* own_block() const;
  RunInputs inputs(const ArgSource& args, Stream stream) const;

  // The layout with the tensors that append() added, for which nothing is made yet.
  struct Grown {
    Layout layout;
    LayoutCheck check;
  };
  std::optional<Grown> grown_;
  std::optional<LayoutCheck> layout_check_;  // of plan->layout
  size_t initialised_ = 0;                   // tensors with initial values, from the first on
  bool begins_somehow_ = false;              // the program says how its buffers begin
  bool closes_windows_ = false;  // of accumulation, and it is not checked yet that any are opened
  bool tables_changed_ = false;  // since the backend last took them over
  std::shared_ptr<const void> opens_windows_;  // known to the scaler while this step lives
  uint64_t number_of(uint64_t own) const {
    return own < resumed_own_ ? own : own - resumed_own_ + resumed_at_;
  }
  uint64_t next_index_ = 0;   // of this step's own runs, as the backends count them
  uint64_t resumed_own_ = 0;  // the first of them after a checkpoint was loaded,
  uint64_t resumed_at_ = 0;   // and its number
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

// Marks the step as running; a second thread that comes meanwhile is told so.
class Step::Impl::Busy {
 public:
  explicit Busy(Impl& step) : step_(step) {
    if (step_.busy_.test_and_set(std::memory_order_acquire)) {
      throw Error(ErrorKind::usage,
                  "this step is running on another thread: a step is used by one "
                  "thread at a time (make one step per thread)");
    }
  }
  ~Busy() { step_.busy_.clear(std::memory_order_release); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  Impl& step_;
};

}  // namespace stepfuse
