// Device memory, host memory, copies and fills.
#include <cstdlib>
#include <cstring>

#include "tools/ptx_machine/fake_driver/driver.hpp"

using namespace ptx::fake;

namespace {

// Calls that a capture does not survive.
Result unsafe_in_capture(Driver& driver) {
  if (!driver.streams->any_capture()) return kSuccess;
  driver.streams->invalidate_captures();
  return kCaptureUnsupported;
}

HostBlock* host_block(Driver& driver, const void* address) {
  auto at = reinterpret_cast<std::uintptr_t>(address);
  auto after = driver.host_blocks.upper_bound(at);
  if (after == driver.host_blocks.begin()) return nullptr;
  auto& [base, block] = *std::prev(after);
  return at - base < block.bytes ? &block : nullptr;
}

bool on_device(Driver& driver, DevicePointer address) {
  return driver.machine->memory().find(address) != nullptr;
}

// The device's allocations hold what they hold; anything else is the host's own address.
void copy_any(Driver& driver, DevicePointer to, DevicePointer from, std::size_t bytes) {
  auto& memory = driver.machine->memory();
  if (on_device(driver, to) && on_device(driver, from)) {
    memory.copy(to, from, bytes);
  } else if (on_device(driver, to)) {
    memory.write(to, reinterpret_cast<const void*>(from), bytes);
  } else if (on_device(driver, from)) {
    memory.read(reinterpret_cast<void*>(to), from, bytes);
  } else {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  }
}

Result copy(Driver& driver, DevicePointer to, DevicePointer from, std::size_t bytes, void* handle) {
  Stream* stream = driver.streams->find(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (bytes == 0) return kSuccess;
  auto pageable = [&](DevicePointer address) {
    return !on_device(driver, address) &&
           host_block(driver, reinterpret_cast<const void*>(address)) == nullptr;
  };
  // Pageable memory is read before the call returns, and written before it does; pinned memory is
  // used when the copy runs. In a capture both are used when the graph runs.
  bool capturing = stream->capture != nullptr;
  if (pageable(from) && !capturing) {
    const auto* bytes_begin = reinterpret_cast<const std::byte*>(from);
    std::vector<std::byte> staged(bytes_begin, bytes_begin + bytes);
    driver.streams->enqueue(*stream, kCopyNode, [&driver, to, staged = std::move(staged)] {
      driver.guarded([&] {
        copy_any(driver, to, reinterpret_cast<DevicePointer>(staged.data()), staged.size());
      });
    });
  } else {
    driver.streams->enqueue(*stream, kCopyNode, [&driver, to, from, bytes] {
      driver.guarded([&] { copy_any(driver, to, from, bytes); });
    });
  }
  if (pageable(to) && !capturing) driver.streams->finish(*stream);
  return driver.faults.lost();
}

Result copy_now(Driver& driver, DevicePointer to, DevicePointer from, std::size_t bytes) {
  if (driver.streams->any_capture()) {
    driver.streams->invalidate_captures();
    return kCaptureImplicit;
  }
  Result result = copy(driver, to, from, bytes, nullptr);
  if (result == kSuccess) driver.streams->finish(*driver.streams->find(nullptr));
  return result == kSuccess ? driver.faults.lost() : result;
}

Result fill(Driver& driver, DevicePointer to, std::uint64_t pattern, unsigned width,
            std::size_t count, void* handle) {
  Stream* stream = driver.streams->find(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (to % width != 0) return kInvalidValue;
  driver.streams->enqueue(*stream, kFillNode, [&driver, to, pattern, width, count] {
    driver.guarded([&] { driver.machine->memory().fill(to, count, pattern, width); });
  });
  return driver.faults.lost();
}

}  // namespace

STEPFUSE_FAKE_API cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  STEPFUSE_FAKE_CALL(context);
  *total = driver.settings.memory_bytes;
  *free = *total - driver.machine->memory().bytes_in_use();
  return kSuccess;
}

STEPFUSE_FAKE_API cuMemAlloc_v2(DevicePointer* address, std::size_t bytes) {
  STEPFUSE_FAKE_CALL(context);
  Result result = unsafe_in_capture(driver);
  return result != kSuccess ? result : driver.allocate(bytes, address);
}

STEPFUSE_FAKE_API cuMemFree_v2(DevicePointer address) {
  STEPFUSE_FAKE_CALL(context);
  Result result = unsafe_in_capture(driver);
  if (result != kSuccess) return result;
  driver.streams->finish_all();
  return driver.release(address);
}

STEPFUSE_FAKE_API cuMemAllocAsync(DevicePointer* address, std::size_t bytes, void* handle) {
  STEPFUSE_FAKE_CALL(context);
  Stream* stream = driver.streams->find(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->capture != nullptr) return kCaptureUnsupported;  // graph memory is not modelled
  return driver.settings.memory_pools ? driver.allocate(bytes, address) : kNotSupported;
}

STEPFUSE_FAKE_API cuMemFreeAsync(DevicePointer address, void* handle) {
  STEPFUSE_FAKE_CALL(context);
  Stream* stream = driver.streams->find(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->capture != nullptr) return kCaptureUnsupported;
  if (driver.machine->memory().find_base(address) == nullptr) return kInvalidValue;
  driver.streams->enqueue(*stream, kEmptyNode, [&driver, address] { driver.release(address); });
  return kSuccess;
}

STEPFUSE_FAKE_API cuDeviceGetDefaultMemPool(void** pool, Device device) {
  STEPFUSE_FAKE_CALL(initialised);
  if (!driver.settings.memory_pools) return kNotSupported;
  *pool = driver.primary(device);
  return *pool == nullptr ? kInvalidDevice : kSuccess;
}

STEPFUSE_FAKE_API cuDeviceGetMemPool(void** pool, Device device) {
  STEPFUSE_FAKE_CALL(initialised);
  if (!driver.settings.memory_pools) return kNotSupported;
  *pool = driver.primary(device);
  return *pool == nullptr ? kInvalidDevice : kSuccess;
}

STEPFUSE_FAKE_API cuMemPoolSetAttribute(void* pool, int, void* value) {
  STEPFUSE_FAKE_CALL(initialised);
  return pool == nullptr || value == nullptr ? kInvalidValue : kSuccess;
}

STEPFUSE_FAKE_API cuMemPoolTrimTo(void* pool, std::size_t) {
  STEPFUSE_FAKE_CALL(initialised);
  return pool == nullptr ? kInvalidValue : kSuccess;
}

STEPFUSE_FAKE_API cuMemAllocFromPoolAsync(DevicePointer* address, std::size_t bytes, void* pool,
                                          void* handle) {
  STEPFUSE_FAKE_CALL(context);
  if (pool == nullptr) return kInvalidValue;
  return driver.streams->find(handle) == nullptr ? kInvalidHandle : driver.allocate(bytes, address);
}

STEPFUSE_FAKE_API cuMemHostAlloc(void** address, std::size_t bytes, unsigned) {
  STEPFUSE_FAKE_CALL(context);
  Result result = unsafe_in_capture(driver);
  if (result != kSuccess) return result;
  if (bytes == 0) return kInvalidValue;
  *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (*address == nullptr) return kOutOfMemory;
  driver.host_blocks[reinterpret_cast<std::uintptr_t>(*address)] = {bytes, false};
  driver.machine->memory().map_host(*address, bytes);
  return kSuccess;
}

STEPFUSE_FAKE_API cuMemAllocHost_v2(void** address, std::size_t bytes) {
  return cuMemHostAlloc(address, bytes, 0);
}

STEPFUSE_FAKE_API cuMemFreeHost(void* address) {
  STEPFUSE_FAKE_CALL(context);
  auto at = driver.host_blocks.find(reinterpret_cast<std::uintptr_t>(address));
  if (at == driver.host_blocks.end() || at->second.registered) return kInvalidValue;
  driver.streams->finish_all();
  driver.machine->memory().unmap_host(address);
  driver.host_blocks.erase(at);
  std::free(address);
  return kSuccess;
}

STEPFUSE_FAKE_API cuMemHostRegister_v2(void* address, std::size_t bytes, unsigned) {
  STEPFUSE_FAKE_CALL(context);
  if (address == nullptr || bytes == 0) return kInvalidValue;
  if (host_block(driver, address) != nullptr) return kHostMemoryAlreadyRegistered;
  driver.host_blocks[reinterpret_cast<std::uintptr_t>(address)] = {bytes, true};
  driver.machine->memory().map_host(address, bytes);
  return kSuccess;
}

STEPFUSE_FAKE_API cuMemHostUnregister(void* address) {
  STEPFUSE_FAKE_CALL(context);
  auto at = driver.host_blocks.find(reinterpret_cast<std::uintptr_t>(address));
  if (at == driver.host_blocks.end() || !at->second.registered) return kHostMemoryNotRegistered;
  driver.streams->finish_all();
  driver.machine->memory().unmap_host(address);
  driver.host_blocks.erase(at);
  return kSuccess;
}

STEPFUSE_FAKE_API cuMemHostGetDevicePointer_v2(DevicePointer* device, void* host, unsigned) {
  STEPFUSE_FAKE_CALL(context);
  if (host_block(driver, host) == nullptr) return kInvalidValue;
  *device = reinterpret_cast<DevicePointer>(host);
  return kSuccess;
}

STEPFUSE_FAKE_API cuMemGetAddressRange_v2(DevicePointer* base, std::size_t* bytes,
                                          DevicePointer address) {
  STEPFUSE_FAKE_CALL(context);
  const auto* allocation = driver.machine->memory().find(address);
  if (allocation == nullptr || address - allocation->base >= allocation->size) return kNotFound;
  if (base != nullptr) *base = allocation->base;
  if (bytes != nullptr) *bytes = allocation->size;
  return kSuccess;
}

STEPFUSE_FAKE_API cuMemcpy(DevicePointer to, DevicePointer from, std::size_t bytes) {
  STEPFUSE_FAKE_CALL(context);
  return copy_now(driver, to, from, bytes);
}
STEPFUSE_FAKE_API cuMemcpyHtoD_v2(DevicePointer to, const void* from, std::size_t bytes) {
  STEPFUSE_FAKE_CALL(context);
  return copy_now(driver, to, reinterpret_cast<DevicePointer>(from), bytes);
}
STEPFUSE_FAKE_API cuMemcpyDtoH_v2(void* to, DevicePointer from, std::size_t bytes) {
  STEPFUSE_FAKE_CALL(context);
  return copy_now(driver, reinterpret_cast<DevicePointer>(to), from, bytes);
}
STEPFUSE_FAKE_API cuMemcpyDtoD_v2(DevicePointer to, DevicePointer from, std::size_t bytes) {
  STEPFUSE_FAKE_CALL(context);
  return copy_now(driver, to, from, bytes);
}
STEPFUSE_FAKE_API cuMemcpyAsync(DevicePointer to, DevicePointer from, std::size_t bytes, void* s) {
  STEPFUSE_FAKE_CALL(context);
  return copy(driver, to, from, bytes, s);
}
STEPFUSE_FAKE_API cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, std::size_t bytes,
                                       void* s) {
  STEPFUSE_FAKE_CALL(context);
  return copy(driver, to, reinterpret_cast<DevicePointer>(from), bytes, s);
}
STEPFUSE_FAKE_API cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t bytes, void* s) {
  STEPFUSE_FAKE_CALL(context);
  return copy(driver, reinterpret_cast<DevicePointer>(to), from, bytes, s);
}
STEPFUSE_FAKE_API cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, std::size_t bytes,
                                       void* s) {
  STEPFUSE_FAKE_CALL(context);
  return copy(driver, to, from, bytes, s);
}

STEPFUSE_FAKE_API cuMemsetD8_v2(DevicePointer to, unsigned char value, std::size_t count) {
  STEPFUSE_FAKE_CALL(context);
  Result result = unsafe_in_capture(driver);
  return result != kSuccess ? result : fill(driver, to, value, 1, count, nullptr);
}
STEPFUSE_FAKE_API cuMemsetD32_v2(DevicePointer to, unsigned value, std::size_t count) {
  STEPFUSE_FAKE_CALL(context);
  Result result = unsafe_in_capture(driver);
  return result != kSuccess ? result : fill(driver, to, value, 4, count, nullptr);
}
STEPFUSE_FAKE_API cuMemsetD8Async(DevicePointer to, unsigned char value, std::size_t count,
                                  void* s) {
  STEPFUSE_FAKE_CALL(context);
  return fill(driver, to, value, 1, count, s);
}
STEPFUSE_FAKE_API cuMemsetD16Async(DevicePointer to, unsigned short value, std::size_t count,
                                   void* s) {
  STEPFUSE_FAKE_CALL(context);
  return fill(driver, to, value, 2, count, s);
}
STEPFUSE_FAKE_API cuMemsetD32Async(DevicePointer to, unsigned value, std::size_t count, void* s) {
  STEPFUSE_FAKE_CALL(context);
  return fill(driver, to, value, 4, count, s);
}
