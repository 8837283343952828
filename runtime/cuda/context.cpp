// Finds, retains and switches contexts. Knows the driver and fmt.
#include "runtime/cuda/context.hpp"

#include <atomic>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

namespace stepfuse::cuda {
namespace {

// Drivers before CUDA 12 do not number contexts. Then every Context gets an id of its own, which costs
// one module per step.
std::string id_of(CuContext context) {
  static std::atomic<uint64_t> unknown{0};
  uint64_t id = 0;
  if (driver().cuCtxGetId != nullptr && driver().cuCtxGetId(context, &id) == kSuccess) {
    return fmt::format("{}", id);
  }
  return fmt::format("unknown {}", unknown++);
}

}  // namespace

Context::Context(int ordinal) : ordinal_(ordinal) {
  const DriverLibrary& cu = driver();
  const auto& devices = driver_status().devices;
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= devices.size()) {
    throw Error(ErrorKind::device, fmt::format("there is no CUDA device {}: the driver has {}",
                                               ordinal, devices.size()));
  }
  info_ = &devices[static_cast<size_t>(ordinal)];
  CuDevice wanted = 0;
  check(cu.cuDeviceGet(&wanted, ordinal), "cuDeviceGet");
  CuDevice current = -1;
  check(cu.cuCtxGetCurrent(&context_), "cuCtxGetCurrent");
  if (context_ != nullptr && cu.cuCtxGetDevice(&current) == kSuccess && current == wanted) {
    id_ = id_of(context_);
    return;
  }
  check(cu.cuDevicePrimaryCtxRetain(&context_, wanted), "cuDevicePrimaryCtxRetain");
  retained_ = true;
  id_ = id_of(context_);
}

Context::~Context() {
  CuDevice device = 0;
  if (retained_ && driver().cuDeviceGet(&device, ordinal_) == kSuccess) {
    driver().cuDevicePrimaryCtxRelease(device);
  }
}

Context::Scope::Scope(const Context& context) {
  CuContext current = nullptr;
  check(driver().cuCtxGetCurrent(&current), "cuCtxGetCurrent");
  if (current == context.handle()) return;
  check(driver().cuCtxPushCurrent(context.handle()), "cuCtxPushCurrent");
  pushed_ = true;
}

Context::Scope::~Scope() {
  CuContext dropped = nullptr;
  if (pushed_) driver().cuCtxPopCurrent(&dropped);
}

}  // namespace stepfuse::cuda
