// Whether captured graphs that contain a step's launches are alive. Knows the driver.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/cuda/driver.hpp"

namespace stepfuse::cuda {

class GraphUses {
 public:
  // `stream` is being captured: its graph counts until it and every executable made of it are
  // destroyed.
  void add(CuStream stream);
  // Since the driver tells of a destroyed graph a little later, on a thread of its own, this waits a
  // moment before it says that one is alive.
  bool any() const;
  // The same without the moment: no means that every replay is done. Yes also of a graph that the
  // driver could not tell of.
  bool perhaps() const { return untold_ || shared_->live.load(std::memory_order_acquire) != 0; }

 private:
  struct Shared {
    std::atomic<int> live{0};
  };
  // The driver's user object owns one of these; it may outlive the step.
  using Held = std::shared_ptr<Shared>;
  static void release(void* held);
  Held shared_ = std::make_shared<Shared>();
  std::atomic<bool> untold_{false};
};

}  // namespace stepfuse::cuda
