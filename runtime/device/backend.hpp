// The interface of a device to a Step; the rest of the runtime is the same for all devices. Knows the
// tables and the compiled variant.
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

// The step's memory on the device. It lives as long as the step, or until append() plans it again.
struct DeviceBlock {
  const WorkspacePlan* plan = nullptr;
  char* base = nullptr;
  char* tables = nullptr;     // Backend::table_bytes() bytes for the backend's own tables
  std::vector<void*> states;  // [state] device pointers, own or shared
};

// The inputs that change from run to run.
struct RunInputs {
  const StepTables* tables = nullptr;  // on the host; pointers and presence are those of this run
  bool tables_changed = false;         // since this backend's last run or observe
  // Arguments by value, unless args_block points to them in device memory. ArgLayout describes the order.
  std::span<const uint64_t> args;
  const uint64_t* args_block = nullptr;
  uint32_t step_arg_count = 0;
  uint32_t group_count = 1;
  Stream stream;
  bool reduced = false;  // the run continues from the results of run_phases()
  uint64_t index = 0;    // the step's index, for its statistics

  // Returns the arguments, for backends that share memory with the host.
  const uint64_t* host_args() const { return args_block != nullptr ? args_block : args.data(); }
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::shared_ptr<DeviceMemory> memory() = 0;
  // Null if every call has finished its work when it returns.
  virtual std::shared_ptr<PendingWork> pending() { return nullptr; }
  // Waits until all work of the step is done, in whatever stream.
  void wait() {
    if (auto work = pending()) work->wait();
  }

  // Bytes that the backend's tables take in the step's block, behind the planned arrays.
  virtual size_t table_bytes(const KernelPlan&, const StepTables&) const { return 0; }

  // Compiles and loads `variant`, or finds it in the variant cache. The variant stays in place until the
  // next prepare(). With `observe`, also loads what observe() needs.
  virtual void prepare(const Variant& variant, bool observe, CompileReport& report) = 0;
  // Takes over new tables or a new block. Called before the first run and after append().
  virtual void attach(const Variant& variant, const StepTables& tables,
                      const DeviceBlock& block) = 0;

  // A captured graph holds addresses of this step's memory, so nothing may move until it is destroyed.
  virtual bool in_live_graph() const { return false; }

  // Writes the arguments, given by value, to a block in device memory, in stream order.
  virtual void set_args(const RunInputs& inputs, uint64_t* block) {
    std::copy(inputs.args.begin(), inputs.args.end(), block);
  }
  // Runs phases [first_phase, end) and the finish. Does not allocate, lock or wait. Reports of finished
  // steps go to the ring, either now or in collect().
  virtual void run(const RunInputs& inputs, int first_phase, StatsRing& ring) = 0;
  // Runs phase 0 of chunks [begin, end).
  virtual void observe(const RunInputs& inputs, uint32_t begin, uint32_t end) = 0;
  // Runs phase 0 of the remaining chunks [begin, end), and its fold, before run(…, 1, …).
  virtual void finish_observing(const RunInputs& inputs, uint32_t begin, uint32_t end) = 0;
  // Runs phases [first, end) and their folds without the finish, as reduce() does. The results are then in
  // the block, where the caller may change them before run(…, end, …) with `reduced`.
  virtual void run_phases(const RunInputs& inputs, int first, int end) = 0;
  // Moves reports of steps that have finished since into the ring, on any thread. With `wait` it first
  // waits for the step and for `stream`.
  virtual void collect(StatsRing& ring, bool wait, Stream stream) = 0;
};

// With `interpreted`, the device keeps the arrays and the host interprets the step (for bisecting).
std::unique_ptr<Backend> make_backend(const Device& device, bool interpreted = false);

}  // namespace stepfuse
