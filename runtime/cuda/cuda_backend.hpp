// A CUDA device as a backend. Knows the public API and the backend interface.
#pragma once

#include <memory>

#include "runtime/device/backend.hpp"

namespace stepfuse {

// Throws Error{device} if there is no driver or no such device.
std::unique_ptr<Backend> make_cuda_backend(const Device& device);

// Makes memory on the device, for a backend that computes elsewhere. Throws the same errors.
std::shared_ptr<DeviceMemory> make_cuda_memory(const Device& device);

// Returns the bytes of a step's tables on a CUDA device; needs no driver.
size_t cuda_table_bytes(const KernelPlan& plan, const StepTables& tables);

}  // namespace stepfuse
