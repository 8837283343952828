// Orders work by one event behind the newest piece. Knows the driver.
#include "runtime/cuda/last_work.hpp"

#include <utility>

namespace stepfuse::cuda {

LastWork::LastWork(std::shared_ptr<Context> context) : context_(std::move(context)) {
  Context::Scope scope(*context_);
  check(driver().cuEventCreate(&event_, kEventDisableTiming), "cuEventCreate");
}

LastWork::~LastWork() {
  try {
    Context::Scope scope(*context_);
    driver().cuEventDestroy(event_);
  } catch (const Error&) {
    // The context is gone, and the event with it.
  }
}

// Wait even if the last piece was given to the same stream: the driver reuses handles of destroyed
// streams.
LastWork::Turn::Turn(LastWork& work, CuStream stream, bool capturing)
    : work_(&work), stream_(stream), capturing_(capturing) {
  if (capturing_) {
    work.graphs_.add(stream_);
    return;
  }
  check(work.recorded_, "cuEventRecord");
  check(driver().cuStreamWaitEvent(stream_, work.event_, 0), "cuStreamWaitEvent");
}

LastWork::Turn::Turn(Turn&& other) noexcept
    : work_(std::exchange(other.work_, nullptr)),
      stream_(other.stream_),
      capturing_(other.capturing_) {}

LastWork::Turn::~Turn() {
  if (work_ == nullptr || capturing_) return;
  work_->recorded_ = driver().cuEventRecord(work_->event_, stream_);
}

void LastWork::wait() {
  Context::Scope scope(*context_);
  if (graphs_.perhaps() || recorded_ != kSuccess) {
    check(driver().cuCtxSynchronize(), "cuCtxSynchronize");
    recorded_ = kSuccess;
  } else {
    check(driver().cuEventSynchronize(event_), "cuEventSynchronize");
  }
}

}  // namespace stepfuse::cuda
