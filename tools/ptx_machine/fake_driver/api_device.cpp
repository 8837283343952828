// cuInit, devices, contexts.
#include <cstdio>
#include <cstring>

#include "tools/ptx_machine/fake_driver/driver.hpp"

using namespace ptx::fake;

namespace {
// Attributes that no setting changes, by the driver's numbers; those not listed are 0.
struct Attribute {
  int number;
  int value;
};
constexpr Attribute kAttributes[] = {
    {1, 1024},                                     // threads per block
    {2, 1024},                                     // block dimensions x, y
    {3, 1024},                                     // block dimensions x, y
    {4, 64},                                       // z
    {5, 2147483647},                               // grid dimension x
    {6, 65535},       {7, 65535}, {8, 48 * 1024},  // shared memory per block
    {9, 64 * 1024},                                // constant memory
    {10, 32},                                      // warp size
    {12, 65536},                                   // registers per block, per multiprocessor
    {82, 65536},                                   // registers per block, per multiprocessor
    {13, 1000000},                                 // clock rate
    {19, 1},                                       // can map host memory
    {31, 1},                                       // concurrent kernels
    {33, 1},                                       // PCI bus
    {36, 1000000},                                 // memory clock
    {37, 512},                                     // bus width
    {38, 32 << 20},                                // L2 cache
    {40, 1},                                       // async engines
    {41, 1},                                       // unified addressing
    {78, 1},                                       // stream priorities
    {81, 228 * 1024},                              // shared memory per multiprocessor
    {91, 1},                                       // host pointer for registered memory
    {97, 227 * 1024},                              // shared memory per block, opt-in
    {99, 1},                                       // host register
    {106, 32},                                     // blocks per multiprocessor
    {111, 1024},                                   // reserved shared memory
};

int attribute_of(const Settings& s, int attribute, Device device) {
  switch (attribute) {
    case 16:
      return s.multiprocessors;
    case 34:
      return device;  // PCI device
    case 39:
      return s.major == 7 ? 1024 : 2048;  // threads per multiprocessor
    case 75:
      return s.major;
    case 76:
      return s.minor;
    case 88:
      return s.pageable ? 1 : 0;
    case 95:
      return s.cooperative ? 1 : 0;
    case 115:
      return s.memory_pools ? 1 : 0;
    default:
      break;
  }
  for (const Attribute& a : kAttributes) {
    if (a.number == attribute) return a.value;
  }
  return 0;
}
}  // namespace

STEPFUSE_FAKE_API cuInit(unsigned flags) {
  STEPFUSE_FAKE_CALL(nothing);
  return flags != 0 ? kInvalidValue : driver.initialise();
}

STEPFUSE_FAKE_API cuDriverGetVersion(int* version) {
  STEPFUSE_FAKE_CALL(nothing);
  if (version == nullptr) return kInvalidValue;
  *version = driver.settings.driver_version;
  return kSuccess;
}

STEPFUSE_FAKE_API cuDeviceGetCount(int* count) {
  STEPFUSE_FAKE_CALL(initialised);
  *count = driver.settings.devices;
  return kSuccess;
}

STEPFUSE_FAKE_API cuDeviceGet(Device* device, int ordinal) {
  STEPFUSE_FAKE_CALL(initialised);
  if (driver.primary(ordinal) == nullptr) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}

STEPFUSE_FAKE_API cuDeviceGetName(char* name, int length, Device device) {
  STEPFUSE_FAKE_CALL(initialised);
  if (driver.primary(device) == nullptr) return kInvalidDevice;
  std::snprintf(name, static_cast<std::size_t>(length), "stepfuse PTX machine");
  return kSuccess;
}

STEPFUSE_FAKE_API cuDeviceGetUuid_v2(char* uuid, Device device) {
  STEPFUSE_FAKE_CALL(initialised);
  if (driver.primary(device) == nullptr) return kInvalidDevice;
  std::memset(uuid, 0x5F, 16);
  uuid[15] = static_cast<char>(device);
  return kSuccess;
}

STEPFUSE_FAKE_API cuDeviceTotalMem_v2(std::size_t* bytes, Device device) {
  STEPFUSE_FAKE_CALL(initialised);
  if (driver.primary(device) == nullptr) return kInvalidDevice;
  *bytes = driver.settings.memory_bytes;
  return kSuccess;
}

STEPFUSE_FAKE_API cuDeviceGetAttribute(int* value, int attribute, Device device) {
  STEPFUSE_FAKE_CALL(initialised);
  if (driver.primary(device) == nullptr) return kInvalidDevice;
  *value = attribute_of(driver.settings, attribute, device);
  return kSuccess;
}

STEPFUSE_FAKE_API cuDevicePrimaryCtxRetain(Context** context, Device device) {
  STEPFUSE_FAKE_CALL(initialised);
  Context* primary = driver.primary(device);
  if (primary == nullptr) return kInvalidDevice;
  ++primary->users;
  *context = primary;
  return kSuccess;
}

STEPFUSE_FAKE_API cuDevicePrimaryCtxRelease_v2(Device device) {
  STEPFUSE_FAKE_CALL(initialised);
  Context* primary = driver.primary(device);
  if (primary == nullptr) return kInvalidDevice;
  if (primary->users == 0) return kInvalidContext;
  --primary->users;
  return kSuccess;
}

STEPFUSE_FAKE_API cuDevicePrimaryCtxGetState(Device device, unsigned* flags, int* active) {
  STEPFUSE_FAKE_CALL(initialised);
  Context* primary = driver.primary(device);
  if (primary == nullptr) return kInvalidDevice;
  *flags = 0;
  *active = primary->users > 0 ? 1 : 0;
  return kSuccess;
}

STEPFUSE_FAKE_API cuDevicePrimaryCtxReset_v2(Device device) {
  STEPFUSE_FAKE_CALL(initialised);
  Context* primary = driver.primary(device);
  if (primary == nullptr) return kInvalidDevice;
  driver.reset_context(*primary);
  return kSuccess;
}

STEPFUSE_FAKE_API cuCtxGetId(Context* context, std::uint64_t* id) {
  STEPFUSE_FAKE_CALL(initialised);
  if (context == nullptr) context = driver.current();
  if (!driver.is_context(context)) return kInvalidContext;
  *id = context->id;
  return kSuccess;
}

STEPFUSE_FAKE_API cuCtxGetCurrent(Context** context) {
  STEPFUSE_FAKE_CALL(initialised);
  *context = driver.current();
  return kSuccess;
}

STEPFUSE_FAKE_API cuCtxSetCurrent(Context* context) {
  STEPFUSE_FAKE_CALL(initialised);
  if (context != nullptr && !driver.is_context(context)) return kInvalidContext;
  if (!driver.stack().empty()) driver.stack().pop_back();
  if (context != nullptr) driver.stack().push_back(context);
  return kSuccess;
}

STEPFUSE_FAKE_API cuCtxPushCurrent_v2(Context* context) {
  STEPFUSE_FAKE_CALL(initialised);
  if (!driver.is_context(context)) return kInvalidContext;
  driver.stack().push_back(context);
  return kSuccess;
}

STEPFUSE_FAKE_API cuCtxPopCurrent_v2(Context** context) {
  STEPFUSE_FAKE_CALL(initialised);
  if (driver.stack().empty()) return kInvalidContext;
  if (context != nullptr) *context = driver.stack().back();
  driver.stack().pop_back();
  return kSuccess;
}

STEPFUSE_FAKE_API cuCtxGetDevice(Device* device) {
  STEPFUSE_FAKE_CALL(context);
  *device = driver.current()->device;
  return kSuccess;
}

STEPFUSE_FAKE_API cuCtxSynchronize() {
  STEPFUSE_FAKE_CALL(context);
  if (driver.streams->any_capture()) {
    driver.streams->invalidate_captures();
    return kCaptureUnsupported;
  }
  driver.streams->finish_all();
  return driver.faults.lost();
}

STEPFUSE_FAKE_API cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  STEPFUSE_FAKE_CALL(context);
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return kSuccess;
}
