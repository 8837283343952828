// Device arrays of a benchmark. Knows the driver.
#include "tools/gpu_bench/arrays.hpp"

#include <algorithm>

#include "tools/workload/values.hpp"

namespace stepfuse::gpu_bench {
namespace {

constexpr size_t kNumberBytes = size_t{8} << 20;

}  // namespace

DeviceArrays::DeviceArrays(const std::shared_ptr<cuda::Context>& context, const Layout& layout,
                           DType dtype, Fill fill, size_t misalign)
    : memory_(context) {
  size_t size = size_of(dtype);
  bytes_ = (layout.element_count() + misalign) * size + 256;
  block_ = static_cast<char*>(memory_.allocate(bytes_, {}));
  cuda::Context::Scope scope(*context);
  this->fill(fill, dtype);
  char* next = block_ + misalign * size;
  for (const TensorSpec& t : layout.tensors()) {
    pointers_.push_back(t.elements == 0 ? nullptr : next);
    next += t.elements * size;
  }
}

void DeviceArrays::fill(Fill fill, DType dtype) {
  auto at = reinterpret_cast<cuda::CuPointer>(block_);
  const cuda::DriverLibrary& driver = cuda::driver();
  std::vector<char> numbers;
  if (fill == Fill::zeros) {
    cuda::check(driver.cuMemsetD8Async(at, 0, bytes_, {}), "cuMemsetD8Async");
  } else {
    numbers.resize(std::min(bytes_, kNumberBytes));
    fill_values(numbers.data(), numbers.size() / size_of(dtype), dtype, RandomStream(1, "", 0), {});
    cuda::check(driver.cuMemcpyHtoDAsync(at, numbers.data(), numbers.size(), nullptr),
                "cuMemcpyHtoDAsync");
    for (size_t done = numbers.size(); done < bytes_; done += numbers.size()) {
      size_t n = std::min(bytes_ - done, numbers.size());
      cuda::check(driver.cuMemcpyDtoDAsync(at + done, at, n, nullptr), "cuMemcpyDtoDAsync");
    }
  }
  cuda::check(driver.cuCtxSynchronize(), "cuCtxSynchronize");
}

DeviceArrays::~DeviceArrays() { memory_.release(block_, bytes_, {}); }

}  // namespace stepfuse::gpu_bench
