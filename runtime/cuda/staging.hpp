// Uploads that are ordered within the stream and do not block. Knows the driver.
#pragma once

#include <vector>

#include "runtime/cuda/cuda_memory.hpp"

namespace stepfuse::cuda {

// A ring of page-locked buffers. A buffer is reused only when the copy out of it has finished: if the
// device is `kDepth` uploads behind, take() waits for the oldest one.
class Staging {
 public:
  static constexpr size_t kDepth = 8;
  Staging(std::shared_ptr<Context> context, size_t bytes);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  char* take();  // the caller fills it, then uploads it
  void upload(void* device, size_t bytes, Stream stream);

 private:
  std::shared_ptr<Context> context_;
  size_t bytes_;
  PinnedMemory memory_;
  std::vector<CuEvent> events_;
  size_t next_ = 0;
};

}  // namespace stepfuse::cuda
