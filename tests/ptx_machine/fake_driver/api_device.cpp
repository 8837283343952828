// cuInit, devices, contexts.
#include <cstdio>
#include <cstring>

#include "tests/ptx_machine/fake_driver/driver.hpp"

using namespace stepfuse::fake;

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
  const Settings& s = driver.settings;
  switch (attribute) {
    case 1:
      *value = 1024;
      break;  // threads per block
    case 2:
    case 3:
      *value = 1024;
      break;  // block dimensions x, y
    case 4:
      *value = 64;
      break;  // z
    case 5:
      *value = 2147483647;
      break;  // grid dimension x
    case 6:
    case 7:
      *value = 65535;
      break;
    case 8:
      *value = 48 * 1024;
      break;  // shared memory per block
    case 9:
      *value = 64 * 1024;
      break;  // constant memory
    case 10:
      *value = 32;
      break;  // warp size
    case 12:
    case 82:
      *value = 65536;
      break;  // registers per block, per multiprocessor
    case 13:
      *value = 1000000;
      break;  // clock rate
    case 16:
      *value = s.multiprocessors;
      break;
    case 18:
      *value = 0;
      break;  // integrated
    case 19:
      *value = 1;
      break;  // can map host memory
    case 20:
      *value = 0;
      break;  // compute mode
    case 31:
      *value = 1;
      break;  // concurrent kernels
    case 32:
      *value = 0;
      break;  // ECC
    case 33:
      *value = 1;
      break;  // PCI bus
    case 34:
      *value = device;
      break;  // PCI device
    case 36:
      *value = 1000000;
      break;  // memory clock
    case 37:
      *value = 512;
      break;  // bus width
    case 38:
      *value = 32 << 20;
      break;  // L2 cache
    case 39:
      *value = s.major == 7 ? 1024 : 2048;
      break;  // threads per multiprocessor
    case 40:
      *value = 1;
      break;  // async engines
    case 41:
      *value = 1;
      break;  // unified addressing
    case 75:
      *value = s.major;
      break;
    case 76:
      *value = s.minor;
      break;
    case 78:
      *value = 1;
      break;  // stream priorities
    case 81:
      *value = 228 * 1024;
      break;  // shared memory per multiprocessor
    case 83:
      *value = 0;
      break;  // managed memory
    case 91:
      *value = 1;
      break;  // host pointer for registered memory
    case 95:
      *value = s.cooperative ? 1 : 0;
      break;
    case 97:
      *value = 227 * 1024;
      break;  // shared memory per block, opt-in
    case 99:
      *value = 1;
      break;  // host register
    case 106:
      *value = 32;
      break;  // blocks per multiprocessor
    case 111:
      *value = 1024;
      break;  // reserved shared memory
    case 115:
      *value = s.memory_pools ? 1 : 0;
      break;
    case 120:
      *value = 0;
      break;  // clusters
    default:
      *value = 0;
      break;
  }
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
