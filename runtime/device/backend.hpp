// What a device has to do for a Step; the rest of the runtime is the same for all. Knows the tables
// and the compiled variant.
#pragma once

#include <algorithm>
#include <memory>
#include <span>

#include "compiler/abi.hpp"
#include "compiler/variant.hpp"
#include "runtime/device/device_memory.hpp"
#include "runtime/device/stats_ring.hpp"
#include "runtime/tables/tables.hpp"
#include "runtime/tables/workspace.hpp"

namespace stepfuse {

// The step's memory on the device; lives as long as the step, or until append() plans it anew.
struct DeviceBlock {
  const WorkspacePlan* plan = nullptr;
  char* base = nullptr;
  char* tables = nullptr;     // Backend::table_bytes() bytes of the backend's own
  std::vector<void*> states;  // [state], own or shared: device pointers
};

// What changes from run to run.
struct RunInputs {
  const StepTables* tables = nullptr;  // host; pointers and presence as of this run
  bool tables_changed = false;         // since the last run or observe of this backend
  // Arguments by value, unless there is a block of them in device memory, laid out as ArgLayout says.
  std::span<const uint64_t> args;
  const uint64_t* args_block = nullptr;
  uint32_t step_arg_count = 0;
  uint32_t group_count = 1;
  Stream stream = nullptr;
  bool reduced = false;  // the results of run_phases() are to be used
  uint64_t index = 0;    // of the step, for its statistics

  // For backends that share memory with the host.
  const uint64_t* host_args() const { return args_block != nullptr ? args_block : args.data(); }
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::shared_ptr<DeviceMemory> memory() = 0;
  // Null if every call is done when it returns.
  virtual std::shared_ptr<PendingWork> pending() { return nullptr; }
  // Until all that the step was given is done, whatever its stream.
  void wait() {
    if (auto work = pending()) work->wait();
  }

  // Bytes of the step's block that the backend's tables take, behind the planned ones.
  virtual size_t table_bytes(const KernelPlan&, const StepTables&) const { return 0; }

  // Compiles and loads `variant`, which stays where it is until the next prepare(), or finds it in the
  // variant cache; with `observe` also what observe() needs.
  virtual void prepare(const Variant& variant, bool observe, CompileReport& report) = 0;
  // New tables or a new block; called before the first run and after append().
  virtual void attach(const Variant& variant, const StepTables& tables,
                      const DeviceBlock& block) = 0;

  // A captured graph holds addresses of this step's memory: nothing may move until it is destroyed.
  virtual bool in_live_graph() const { return false; }

  // Writes the arguments by value to a block in device memory, in stream order.
  virtual void set_args(const RunInputs& inputs, uint64_t* block) {
    std::copy(inputs.args.begin(), inputs.args.end(), block);
  }
  // Phases [first_phase, end) and the finish. Allocates nothing, locks nothing, waits for nothing.
  // Reports of finished steps go to the ring, now or in collect().
  virtual void run(const RunInputs& inputs, int first_phase, StatsRing& ring) = 0;
  // Phase 0 of chunks [begin, end).
  virtual void observe(const RunInputs& inputs, uint32_t begin, uint32_t end) = 0;
  // Phase 0 of the chunks [begin, end) that are left, and its fold, before run(…, 1, …).
  virtual void finish_observing(const RunInputs& inputs, uint32_t begin, uint32_t end) = 0;
  // Phases [first, end) and their folds, not the finish: what reduce() does. Results are then in the
  // block, where somebody else may change them before run(…, end, …) with `reduced`.
  virtual void run_phases(const RunInputs& inputs, int first, int end) = 0;
  // Moves reports of steps that have finished meanwhile into the ring, on whatever thread; does not
  // wait for the device unless told to: then for the step and for `stream`.
  virtual void collect(StatsRing& ring, bool wait, Stream stream) = 0;
};

// `interpreted`: the device keeps the arrays, the host interprets the step (for bisecting).
std::unique_ptr<Backend> make_backend(const Device& device, bool interpreted = false);

}  // namespace stepfuse
