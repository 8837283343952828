// What the NVIDIA driver says about this machine. Knows the loader.
#include "runtime/cuda/driver_status.hpp"

#include <array>
#include <cstddef>
#include <dlfcn.h>

namespace stepfuse::cuda {
namespace {

using Result = int;  // CUresult
using Device = int;  // CUdevice

// CUdevice_attribute.
constexpr int kMultiprocessorCount = 16;
constexpr int kMajor = 75;
constexpr int kMinor = 76;
constexpr int kCooperativeLaunch = 95;

// X(member, symbol, parameters): the functions of cuda.h that are asked here.
#define STEPFUSE_DRIVER_QUERIES(X)                                 \
  X(init, "cuInit", (unsigned))                                    \
  X(driver_version, "cuDriverGetVersion", (int*))                  \
  X(error_name, "cuGetErrorName", (Result, const char**))          \
  X(device_count, "cuDeviceGetCount", (int*))                      \
  X(device, "cuDeviceGet", (Device*, int))                         \
  X(device_name, "cuDeviceGetName", (char*, int, Device))          \
  X(device_attribute, "cuDeviceGetAttribute", (int*, int, Device)) \
  X(total_memory, "cuDeviceTotalMem_v2", (size_t*, Device))

struct Queries {
#define X(member, symbol, parameters) Result(*member) parameters = nullptr;
  STEPFUSE_DRIVER_QUERIES(X)
#undef X
};

bool resolve(void* handle, Queries* q, std::string* missing) {
#define X(member, symbol, parameters)                                        \
  q->member = reinterpret_cast<Result(*) parameters>(dlsym(handle, symbol)); \
  if (q->member == nullptr && missing->empty()) *missing = symbol;
  STEPFUSE_DRIVER_QUERIES(X)
#undef X
  return missing->empty();
}

class Query {
 public:
  explicit Query(DriverStatus& status) : status_(status) {}

  void run() {
    if (!open()) return;
    if (!ok("cuInit", q_.init(0))) return;
    if (!ok("cuDriverGetVersion", q_.driver_version(&status_.version))) return;
    int count = 0;
    if (!ok("cuDeviceGetCount", q_.device_count(&count))) return;
    for (int i = 0; i < count; ++i) {
      if (!add_device(i)) return;
    }
    status_.available = true;
  }

 private:
  bool open() {
    void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* why = dlerror();
      status_.problem = why != nullptr ? why : "libcuda.so.1 cannot be opened";
      return false;
    }
    std::string missing;
    bool complete = resolve(handle, &q_, &missing);
    status_.path = "libcuda.so.1";
    Dl_info where{};
    void* any = dlsym(handle, "cuInit");
    if (any != nullptr && dladdr(any, &where) != 0) status_.path = where.dli_fname;
    if (!complete) status_.problem = status_.path + " has no " + missing;
    return complete;
  }

  bool ok(const char* call, Result result) {
    if (result == 0) return true;
    const char* name = nullptr;
    q_.error_name(result, &name);
    status_.problem = std::string(call) + " returned " + std::to_string(result);
    if (name != nullptr) status_.problem += std::string(" (") + name + ")";
    return false;
  }

  bool add_device(int index) {
    Device device = 0;
    if (!ok("cuDeviceGet", q_.device(&device, index))) return false;
    DeviceStatus d;
    std::array<char, 256> name{};
    bool good = ok("cuDeviceGetName",
                   q_.device_name(name.data(), static_cast<int>(name.size()) - 1, device));
    d.name = name.data();
    size_t bytes = 0;
    good = good && ok("cuDeviceTotalMem_v2", q_.total_memory(&bytes, device));
    d.memory_bytes = bytes;
    int major = 0;
    int minor = 0;
    int cooperative = 0;
    auto attribute = [&](int which, int* value) {
      good = good && ok("cuDeviceGetAttribute", q_.device_attribute(value, which, device));
    };
    attribute(kMajor, &major);
    attribute(kMinor, &minor);
    attribute(kMultiprocessorCount, &d.multiprocessors);
    attribute(kCooperativeLaunch, &cooperative);
    d.arch = 10 * major + minor;
    d.cooperative_launch = cooperative != 0;
    if (good) status_.devices.push_back(std::move(d));
    return good;
  }

  DriverStatus& status_;
  Queries q_;
};

}  // namespace

const DriverStatus& driver_status() {
  static const DriverStatus status = [] {
    DriverStatus s;
    Query(s).run();
    return s;
  }();
  return status;
}

}  // namespace stepfuse::cuda
