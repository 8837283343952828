// Memory is the host's, or a CUDA device's in the order of the stream of XLA: where a call's arrays are. Knows the CUDA
// driver.
#pragma once

#include <cstddef>

namespace stepfuse_jax {

class Memory {
 public:
  // The host's memory.
  Memory() = default;
  // The memory of the device whose context is current: XLA activates it before it calls. Throws a Failure if there is
  // no driver.
  static Memory on_cuda(void* stream);

  bool is_cuda() const { return context_ != nullptr; }
  void* stream() const { return stream_; }
  int ordinal() const { return ordinal_; }

  void copy(void* to, const void* from, size_t bytes) const;
  void zero(void* at, size_t bytes) const;
  // Returns when all work of the device is done.
  void wait() const noexcept;

 private:
  void* stream_ = nullptr;
  void* context_ = nullptr;
  int ordinal_ = 0;
};

}  // namespace stepfuse_jax
