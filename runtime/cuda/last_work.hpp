// The unfinished work of a step. All its work is one sequence, whatever streams it is given to, and the
// host can wait for the end. Knows the driver.
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

  // Surrounds a piece of work in a stream. The piece starts after all earlier ones, and later ones start
  // after it. During a capture it becomes part of a graph instead, and the caller orders the graph's
  // replays.
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

  // Also waits for replays of graphs that are alive.
  void wait() override;
  bool in_live_graph() const { return graphs_.any(); }

 private:
  std::shared_ptr<Context> context_;
  CuEvent event_ = nullptr;  // recorded behind the last piece
  // The result of recording the event. The next piece reports a failure, because it could not be ordered.
  std::atomic<CuResult> recorded_{kSuccess};
  GraphUses graphs_;
};

}  // namespace stepfuse::cuda
