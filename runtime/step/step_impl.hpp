// The parts of a Step: plan, memory, binding, backend. Knows the runtime's parts.
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

// Everything that follows from program and layout, and what a run has changed of it. append() makes another
// one and replaces this one as a whole.
struct STEPFUSE_HIDDEN StepPlan {
  // Plans without memory. `observed` says that observe() and reduce() may be called. If the phases that these
  // run would store in `form`, the split form is taken instead.
  StepPlan(const Program& source, Layout layout, Form form, bool observed);
  // Binding holds references into the plan, so it must not move.
  StepPlan(const StepPlan&) = delete;
  StepPlan& operator=(const StepPlan&) = delete;

  Layout layout;
  StepTables tables;
  Variant variant;
  const KernelPlan& kernels() const { return variant.plan; }
  WorkspacePlan workspace;
  double passes_ms = 0;

  // Made by Step::Impl::allocate().
  std::unique_ptr<WorkspaceBlock> block;
  std::unique_ptr<Binding> binding;
  std::vector<void*> states;              // [state]
  std::string range_name;                 // the step's name on a profiler's timeline
  std::string observe_name, reduce_name;  // names of its parts there

  std::vector<uint8_t> observed;  // [tensor] phase 0 has processed its gradient
  bool any_observed = false;
  bool reduced = false;   // reduce() has run since the last run()
  bool outdated = false;  // a change has made the results of reduce() invalid
  bool prepared = false;
  bool args_set = false;  // the step's own argument block is filled
};

// The source of a run's arguments.
struct ArgSource {
  const Args* values = nullptr;
  const uint64_t* block = nullptr;  // in device memory, unless `values` is set
};

class STEPFUSE_HIDDEN Step::Impl {
 public:
  class Busy;  // detects concurrent calls
  Impl(Program program, Layout layout, const Device& device, const StepOptions& options);
  // Waits for the device, so that the caller may free the step's arrays afterwards.
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void prepare();
  void bind(std::string_view buffer, std::span<void* const> pointers);
  void bind(std::string_view buffer, std::span<const Array> arrays);
  void init_state(size_t first_tensor, Stream stream);
  void adopt_state();
  void run(std::span<void* const> gradients, const ArgSource& args, Stream stream);
  void observe(size_t first, std::span<void* const> gradients, const ArgSource& args,
               Stream stream);
  void reduce(std::span<void* const> gradients, const ArgSource& args, Stream stream);
  Partials partials() const;
  void append(TensorSpec tensor);
  // Plans for the tensors appended since the last call, if there are any.
  void settle() {
    if (grown_) grow();
  }
  void set_group(size_t tensor, int group);

  // Waits for the work of this step and of the other steps of its scaler.
  void wait() const;
  // `written` leaves out states that the step only reads, because the caller writes those.
  enum class States : uint8_t { all, written };
  void initialise_states(size_t first_tensor, States which, Stream stream);
  std::vector<Bits> read_state(std::string_view name, Stream stream) const;
  void write_state(std::string_view name, std::span<const Bits> values, Stream stream);
  std::optional<StepStats> newest() const;
  StepStats to_stats(const StatsRing::Record& record) const;
  // Indices of runs. They continue after a checkpoint was loaded.
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
  void* device_arg(ArgId arg, Member member) const;
  size_t arg_offset(ArgId arg, Member member) const;
  void write_args(const Args& args, std::span<uint64_t> words) const;
  Args fetch_args(const ArgSource& source, Stream stream) const;

  size_t block_bytes() const;
  size_t state_index(std::string_view name) const;
  void* state_pointer(size_t state) const { return plan->states[state]; }
  Bits arg_bits(const Args& args, size_t arg, size_t member) const;
  void set_arg_bits(Args& args, size_t arg, size_t member, Bits value) const;

  std::unique_ptr<StepPlan> plan;  // first, so that its memory outlives the backend
  Program program;                 // as given, before any pass
  Device device;
  StepOptions options;  // without the scaler, which `scaler` keeps
  std::shared_ptr<LossScaler::Shared> scaler;
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

  // The layout with the tensors that append() added, before anything was made for them.
  struct Grown {
    Layout layout;
    LayoutCheck check;
  };
  std::optional<Grown> grown_;
  std::optional<LayoutCheck> layout_check_;  // checks plan->layout
  size_t initialised_ = 0;                   // the first tensors, which have initial values
  bool begins_somehow_ = false;              // the program says how its buffers start
  // It closes accumulation windows, and no step is known yet that opens any.
  bool closes_windows_ = false;
  bool tables_changed_ = false;                // since the backend last took them over
  std::shared_ptr<const void> opens_windows_;  // registers this step with the scaler while it lives
  uint64_t number_of(uint64_t own) const {
    return own < resumed_own_ ? own : own - resumed_own_ + resumed_at_;
  }
  uint64_t next_index_ = 0;   // index of the next own run, as the backends count them
  uint64_t resumed_own_ = 0;  // own index of the first run after a checkpoint was loaded,
  uint64_t resumed_at_ = 0;   // and the index that the checkpoint gives it
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

// Marks the step as running. Throws if a different thread is running it.
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
