// Starts the driver and converts its errors. Knows the driver's functions, the error type and fmt.
#include "runtime/cuda/driver.hpp"

#include <fmt/format.h>

#include <stepfuse/error.hpp>

namespace stepfuse::cuda {
namespace {

struct Instance {
  DriverLibrary library;
  DriverStatus status;
};

std::string describe(const DriverLibrary& cu, CuResult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  cu.cuGetErrorName(result, &name);
  cu.cuGetErrorString(result, &text);
  return fmt::format("{} {} ({})", result, name != nullptr ? name : "unknown error",
                     text != nullptr ? text : "no text");
}

DeviceInfo describe_device(const DriverLibrary& cu, int ordinal) {
  DeviceInfo info;
  CuDevice device = 0;
  if (cu.cuDeviceGet(&device, ordinal) != kSuccess) return info;
  char name[256] = {};
  cu.cuDeviceGetName(name, sizeof(name) - 1, device);
  info.name = name;
  auto attribute = [&](int which) {
    int value = 0;
    cu.cuDeviceGetAttribute(&value, which, device);
    return value;
  };
  info.arch = attribute(kComputeCapabilityMajor) * 10 + attribute(kComputeCapabilityMinor);
  info.multiprocessors = attribute(kMultiprocessorCount);
  info.cooperative = attribute(kCooperativeLaunch) != 0;
  info.pageable = attribute(kPageableMemoryAccess) != 0;
  return info;
}

Instance start() {
  Instance instance;
  DriverStatus& status = instance.status;
  instance.library = open_driver(&status.problem);
  const DriverLibrary& cu = instance.library;
  if (cu.cuInit == nullptr) return instance;
  status.path = cu.path;
  int count = 0;
  CuResult result = cu.cuInit(0);
  if (result == kSuccess) result = cu.cuDeviceGetCount(&count);
  if (result != kSuccess) {
    status.problem = fmt::format("{}: cuInit says {}", cu.path, describe(cu, result));
    return instance;
  }
  cu.cuDriverGetVersion(&status.version);
  for (int i = 0; i < count; ++i) status.devices.push_back(describe_device(cu, i));
  status.available = true;
  return instance;
}

const Instance& instance() {
  // The instance is leaked on purpose: steps that are destroyed late still need it.
  static const auto* the = new Instance(start());
  return *the;
}

}  // namespace

const DriverStatus& driver_status() { return instance().status; }

const DriverLibrary& driver() {
  if (!instance().status.available) {
    throw Error(ErrorKind::device, "there is no CUDA driver: " + instance().status.problem);
  }
  return instance().library;
}

std::string error_text(CuResult result) { return describe(instance().library, result); }

void check(CuResult result, std::string_view call) {
  if (result == kSuccess) return;
  throw Error(ErrorKind::device, fmt::format("{}: {}", call, error_text(result)));
}

}  // namespace stepfuse::cuda
