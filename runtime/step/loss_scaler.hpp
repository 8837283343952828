// The storage behind a LossScaler. Knows the public API and device memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <stepfuse/program.hpp>
#include <stepfuse/stepfuse.hpp>

#include "runtime/device/device_memory.hpp"
#include "runtime/process/hidden.hpp"

namespace stepfuse {

// Shared states by name. Each has a cache line of its own in one block on the first step's device.
class STEPFUSE_HIDDEN LossScaler::Shared {
 public:
  Shared(const Options& options, float init_scale) : options_(options), init_scale_(init_scale) {}
  ~Shared();

  // Returns the device pointer of the state, which gets its initial value when it is first asked for.
  // Throws Error{bind} if the dtype or the device differs from before.
  void* attach(const State& state, const std::shared_ptr<DeviceMemory>& memory);
  // Registers a step that will use the states. Its unfinished work is waited for before they are read or
  // written.
  void serve(std::shared_ptr<PendingWork> step);
  void wait() const;
  const float* device_scale() const;
  double read(std::string_view name) const;
  void write(std::string_view name, double value);
  void update(double new_scale);
  bool has(std::string_view name) const;
  // Whether micro-batches are counted: by a step that opens accumulation windows, which is known while it
  // keeps the result of open_windows(), or by the caller.
  bool counts_micro_batches() const;
  std::shared_ptr<const void> open_windows();
  // The trackers were set from outside, so the last run's change of them no longer applies.
  void forget_changes();
  const Options& options() const { return options_; }

 private:
  struct Entry {
    DType dtype = DType::f32;
    size_t offset = 0;
    bool is_written = false;  // the host has written it
  };
  static constexpr size_t kBytes = 4096;
  static constexpr size_t kStride = 128;
  const Entry& find(std::string_view name) const;
  void wait_locked() const;
  Bits load(const Entry& entry) const;
  void store(const Entry& entry, Bits value);
  void set_scale(double value);
  void forget_change(std::string_view tracker);
  void check_no_window() const;

  mutable std::mutex mutex_;
  const Options options_;
  float init_scale_;
  std::shared_ptr<DeviceMemory> memory_;
  char* block_ = nullptr;
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<std::weak_ptr<PendingWork>> steps_;
  std::weak_ptr<const void> opener_;  // shared by all steps that open windows
};

}  // namespace stepfuse
