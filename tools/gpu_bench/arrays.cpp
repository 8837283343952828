// Device arrays of a benchmark. Knows the driver.
#include "tools/gpu_bench/arrays.hpp"

namespace stepfuse::gpu_bench {

DeviceArrays::DeviceArrays(const std::shared_ptr<cuda::Context>& context, const Layout& layout,
                           DType dtype, unsigned char fill, size_t misalign)
    : memory_(context) {
  size_t size = size_of(dtype);
  bytes_ = (layout.element_count() + misalign) * size + 256;
  block_ = static_cast<char*>(memory_.allocate(bytes_, nullptr));
  cuda::Context::Scope scope(*context);
  cuda::check(cuda::driver().cuMemsetD8Async(reinterpret_cast<cuda::CuPointer>(block_), fill,
                                             bytes_, nullptr),
              "cuMemsetD8Async");
  cuda::check(cuda::driver().cuCtxSynchronize(), "cuCtxSynchronize");
  char* next = block_ + misalign * size;
  for (const TensorSpec& t : layout.tensors()) {
    pointers_.push_back(t.size == 0 ? nullptr : next);
    next += t.size * size;
  }
}

DeviceArrays::~DeviceArrays() { memory_.release(block_, bytes_, nullptr); }

}  // namespace stepfuse::gpu_bench
