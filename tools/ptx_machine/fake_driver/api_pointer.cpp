// Pointer attributes: cuPointerGetAttribute and cuPointerGetAttributes.
#include <cstring>

#include "tools/ptx_machine/fake_driver/driver.hpp"

using namespace ptx::fake;

namespace {

enum Attribute {
  kContext = 1,
  kMemoryType = 2,
  kDevicePointer = 3,
  kHostPointer = 4,
  kIsManaged = 8,
  kDeviceOrdinal = 9,
  kRangeStart = 11,
  kRangeSize = 12,
  kMapped = 13,
};

template <class T>
Result put(void* out, T value) {
  std::memcpy(out, &value, sizeof(T));
  return kSuccess;
}

Result attribute_of(Driver& driver, int attribute, DevicePointer address, void* out) {
  const auto* allocation = driver.machine->memory().find(address);
  if (allocation == nullptr || address - allocation->base >= allocation->size) return kInvalidValue;
  bool is_host = driver.host_blocks.contains(allocation->base);
  Device device = is_host ? 0 : driver.device_of(address);
  switch (attribute) {
    case kContext:
      return put(out, static_cast<void*>(driver.primary(device)));
    case kMemoryType:
      return put(out, is_host ? 1u : 2u);
    case kDevicePointer:
      return put(out, address);
    case kHostPointer:
      return is_host ? put(out, address) : kInvalidValue;
    case kIsManaged:
      return put(out, 0u);
    case kDeviceOrdinal:
      return put(out, device);
    case kRangeStart:
      return put(out, allocation->base);
    case kRangeSize:
      return put(out, static_cast<std::size_t>(allocation->size));
    case kMapped:
      return put(out, 1u);
    default:
      return kInvalidValue;
  }
}

}  // namespace

STEPFUSE_FAKE_API cuPointerGetAttribute(void* out, int attribute, DevicePointer address) {
  STEPFUSE_FAKE_CALL(initialised);
  return out == nullptr ? kInvalidValue : attribute_of(driver, attribute, address, out);
}

// For a pointer unknown to CUDA, every attribute is null and the call succeeds.
STEPFUSE_FAKE_API cuPointerGetAttributes(unsigned count, const int* attributes, void** data,
                                         DevicePointer address) {
  STEPFUSE_FAKE_CALL(initialised);
  for (unsigned k = 0; k < count; ++k) {
    if (attribute_of(driver, attributes[k], address, data[k]) == kSuccess) continue;
    bool is_wide = attributes[k] <= kHostPointer && attributes[k] != kMemoryType;
    std::memset(data[k], 0,
                is_wide || attributes[k] == kRangeStart || attributes[k] == kRangeSize ? 8 : 4);
    if (attributes[k] == kDeviceOrdinal) put(data[k], -2);
  }
  return kSuccess;
}
