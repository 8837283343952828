// Tells whether captured graphs that contain a step's launches are alive. Knows the driver.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/cuda/driver.hpp"

namespace stepfuse::cuda {

class GraphUses {
 public:
  // Call it while `stream` is being captured. Its graph counts until the graph and every executable made
  // from it are destroyed.
  void add(CuStream stream);
  // The driver reports a destroyed graph a little later, on its own thread. Therefore this function waits
  // a moment before it answers that a graph is alive.
  bool any() const;
  // Does the same without waiting. False means that every replay has finished. True also if the driver
  // could not report some graph.
  bool perhaps() const { return untold_ || shared_->live.load(std::memory_order_acquire) != 0; }

 private:
  struct Shared {
    std::atomic<int> live{0};
  };
  // The driver's user object owns one of these, which may outlive the step.
  using Held = std::shared_ptr<Shared>;
  static void release(void* held);
  Held shared_ = std::make_shared<Shared>();
  std::atomic<bool> untold_{false};
};

}  // namespace stepfuse::cuda
