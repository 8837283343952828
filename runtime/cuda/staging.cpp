// The ring of upload buffers. Knows the driver.
#include "runtime/cuda/staging.hpp"

namespace stepfuse::cuda {

Staging::Staging(std::shared_ptr<Context> context, size_t bytes)
    : context_(context), bytes_(bytes), memory_(std::move(context), bytes * kDepth) {
  Context::Scope scope(*context_);
  for (size_t i = 0; i < kDepth; ++i) {
    CuEvent event = nullptr;
    check(driver().cuEventCreate(&event, kEventDisableTiming), "cuEventCreate");
    events_.push_back(event);
  }
}

Staging::~Staging() {
  try {
    Context::Scope scope(*context_);
    for (CuEvent event : events_) {
      driver().cuEventSynchronize(event);  // the copy still reads the memory
      driver().cuEventDestroy(event);
    }
  } catch (const Error&) {
  }
}

char* Staging::take() {
  CuResult busy = driver().cuEventQuery(events_[next_]);
  if (busy == kNotReady) {
    check(driver().cuEventSynchronize(events_[next_]), "cuEventSynchronize");
  } else {
    check(busy, "cuEventQuery");
  }
  return memory_.host() + next_ * bytes_;
}

void Staging::upload(void* device, size_t bytes, Stream stream) {
  check(driver().cuMemcpyHtoDAsync(reinterpret_cast<CuPointer>(device),
                                   memory_.host() + next_ * bytes_, bytes, stream.handle),
        "cuMemcpyHtoDAsync");
  check(driver().cuEventRecord(events_[next_], stream.handle), "cuEventRecord");
  next_ = (next_ + 1) % kDepth;
}

}  // namespace stepfuse::cuda
