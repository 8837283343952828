// Kernel launches: limits, parameters, and the machine's errors.
#include <cstdio>
#include <cstring>

#include "tools/ptx_machine/fake_driver/driver.hpp"

namespace ptx::fake {
namespace {

Result code_of(ptx::ErrorKind kind) {
  switch (kind) {
    case ptx::ErrorKind::out_of_bounds:
    case ptx::ErrorKind::read_only:
      return kIllegalAddress;
    case ptx::ErrorKind::misaligned:
      return kMisalignedAddress;
    case ptx::ErrorKind::hang:
      return kLaunchTimeout;
    case ptx::ErrorKind::bad_launch:
      return kInvalidValue;
    default:
      return kLaunchFailed;
  }
}

constexpr int kRegistersPerMultiprocessor = 65536;
constexpr int kSharedPerMultiprocessor = 228 * 1024;

}  // namespace

// Limited by threads, shared memory and registers: those of the launch bounds, or 64 per thread
// without any.
int Driver::blocks_per_multiprocessor(const Function& function, int threads,
                                      std::size_t shared) const {
  const ptx::Kernel& kernel = *function.kernel;
  if (threads <= 0 || threads > static_cast<int>(kernel.max_threads)) return 0;
  if (settings.blocks_per_multiprocessor > 0) return settings.blocks_per_multiprocessor;
  int by_threads = (settings.major == 7 ? 1024 : 2048) / threads;
  int by_registers = kernel.min_blocks > 0 ? static_cast<int>(kernel.min_blocks)
                                           : kRegistersPerMultiprocessor / (64 * threads);
  std::size_t shared_of_block = kernel.static_shared_bytes + shared + 1024;
  auto by_shared = static_cast<int>(kSharedPerMultiprocessor / shared_of_block);
  return std::min({by_threads, by_registers, by_shared, 32});
}

Result Driver::check_shape(const Function& function, const ptx::LaunchShape& shape,
                           bool cooperative) const {
  std::uint64_t threads = shape.block.count();
  if (threads == 0 || shape.grid.count() == 0) return kInvalidValue;
  if (threads > 1024) return kInvalidValue;
  if (threads > function.kernel->max_threads) return kLaunchOutOfResources;
  if (static_cast<int>(shape.dynamic_shared_bytes) > function.dynamic_shared_limit) {
    return kInvalidValue;
  }
  if (!cooperative) return kSuccess;
  if (!settings.cooperative) return kNotSupported;
  int per =
      blocks_per_multiprocessor(function, static_cast<int>(threads), shape.dynamic_shared_bytes);
  if (shape.grid.count() > static_cast<std::uint64_t>(per) * settings.multiprocessors) {
    return kCooperativeLaunchTooLarge;
  }
  return kSuccess;
}

Result Driver::launch(Function* function, const ptx::LaunchShape& shape, bool cooperative,
                      Stream& stream, void** params, void** extra) {
  if (extra != nullptr) return kNotSupported;
  Result result = check_shape(*function, shape, cooperative);
  if (result != kSuccess) return result;
  const ptx::Kernel& kernel = *function->kernel;
  if (params == nullptr && !kernel.params.empty()) return kInvalidValue;
  std::vector<std::byte> bytes(kernel.param_bytes);
  for (std::size_t k = 0; k < kernel.params.size(); ++k) {
    std::memcpy(bytes.data() + kernel.params[k].offset, params[k], kernel.params[k].bytes);
  }
  ptx::LaunchShape as_launched = shape;
  as_launched.cooperative = cooperative;
  streams->enqueue(stream, kKernelNode, [this, &kernel, as_launched, bytes = std::move(bytes)] {
    run_kernel(kernel, as_launched, bytes);
  });
  return faults.lost();
}

void Driver::run_kernel(const ptx::Kernel& kernel, const ptx::LaunchShape& shape,
                        const std::vector<std::byte>& params) {
  if (faults.lost() != kSuccess) return;
  ++launches;
  blocks += shape.grid.count();
  ptx::LaunchOptions options{
      .seed = seed++, .step_limit = settings.step_limit, .checks = settings.checks};
  auto lost_after = faults.launch();
  if (lost_after) options.step_limit = *lost_after;
  try {
    instructions += machine->launch(kernel, shape, params, options).instructions;
    if (lost_after) faults.lose(faults.loss_code());
  } catch (const ptx::MachineError& e) {
    error = e.what();
    bool planned = lost_after && e.kind() == ptx::ErrorKind::hang;
    faults.lose(planned ? faults.loss_code() : code_of(e.kind()));
    if (!planned) std::fprintf(stderr, "fake libcuda: %s\n", e.what());
  }
}

void Driver::guarded(const std::function<void()>& work) {
  if (faults.lost() != kSuccess) return;
  try {
    work();
  } catch (const ptx::MachineError& e) {
    error = e.what();
    std::fprintf(stderr, "fake libcuda: %s\n", e.what());
    faults.lose(code_of(e.kind()));
  }
}

}  // namespace ptx::fake
