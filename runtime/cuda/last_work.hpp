// What a step has under way: its work is one sequence, whatever streams it is given to, and the host
// can wait for the end of it. Knows the driver.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/cuda/context.hpp"
#include "runtime/cuda/graph_uses.hpp"
#include "runtime/device/device_memory.hpp"

namespace stepfuse::cuda {

class LastWork final : public PendingWork {
 public:
  explicit LastWork(std::shared_ptr<Context> context);
  ~LastWork() override;
  LastWork(const LastWork&) = delete;
  LastWork& operator=(const LastWork&) = delete;

  // Around a piece of work in a stream: it begins after all earlier ones, and later ones begin after
  // it. In a capture it is part of a graph instead, whose replays the caller orders.
  class Turn {
   public:
    Turn(LastWork& work, CuStream stream, bool capturing);
    ~Turn();
    Turn(Turn&& other) noexcept;
    Turn& operator=(Turn&&) = delete;

   private:
    LastWork* work_;  // null if moved from
    CuStream stream_;
    bool capturing_;
  };

  // Also for replays of graphs that are alive.
  void wait() override;
  bool in_live_graph() const { return graphs_.any(); }

 private:
  std::shared_ptr<Context> context_;
  CuEvent event_ = nullptr;  // behind the last piece
  // A failure to record it, which the next piece reports: until somebody waits, none is ordered.
  std::atomic<CuResult> recorded_{kSuccess};
  GraphUses graphs_;
};

}  // namespace stepfuse::cuda
