// The memory of one device, for the device-neutral parts of the runtime. Knows only std.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string>

#include <stepfuse/stepfuse.hpp>

namespace stepfuse {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // "host" or "cuda:0", for example. Memories with the same name can be used together.
  virtual std::string device_name() const = 0;
  // Returns 256-byte aligned memory. If there is not enough, throws Error{device}, or std::bad_alloc on the
  // host.
  virtual void* allocate(size_t bytes, Stream stream) = 0;
  virtual void release(void* memory, size_t bytes, Stream stream) noexcept = 0;
  // Copies in stream order; the host memory may be reused on return.
  virtual void copy_to_device(void* device, const void* host, size_t bytes, Stream stream) = 0;
  // Calls f with the device's context current, because an allocator of the caller's may need that.
  virtual void on_device(const std::function<void()>& f) { f(); }
  // Returns why kernels of this device cannot use an array at `p`, such as "memory of cuda:1", or "".
  virtual std::string problem_with(const void*) { return {}; }
  // Whether work on the stream becomes part of a graph instead of being executed.
  virtual bool is_capturing(Stream) { return false; }
  // Waits for the stream, even if there is nothing to copy.
  virtual void copy_to_host(void* host, const void* device, size_t bytes, Stream stream) = 0;
};

// The unfinished work of a step on its device, in any streams.
class PendingWork {
 public:
  virtual ~PendingWork() = default;
  virtual void wait() = 0;
};

class HostMemory final : public DeviceMemory {
 public:
  std::string device_name() const override { return "host"; }
  void* allocate(size_t bytes, Stream) override {
    void* p = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (p == nullptr) throw std::bad_alloc();
    return p;
  }
  void release(void* memory, size_t, Stream) noexcept override { std::free(memory); }
  void copy_to_device(void* device, const void* host, size_t bytes, Stream) override {
    if (bytes != 0) std::memcpy(device, host, bytes);
  }
  void copy_to_host(void* host, const void* device, size_t bytes, Stream) override {
    if (bytes != 0) std::memcpy(host, device, bytes);
  }

 private:
  static constexpr size_t kAlignment = 256;
};

}  // namespace stepfuse
