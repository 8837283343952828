// The variants that this process has loaded, one cache per backend. Knows the variant cache.
#pragma once

#include "runtime/caches/variant_cache.hpp"

namespace stepfuse {

class CpuKernel;
VariantCache<CpuKernel>& cpu_variants();
class CudaKernel;
VariantCache<CudaKernel>& cuda_variants();

}  // namespace stepfuse
