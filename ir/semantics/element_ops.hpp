// The elementwise ops over a column of elements: semantics.hpp in a loop. Knows ir only.
#pragma once

#include <cstdint>

#include <stepfuse/ops.hpp>
#include <stepfuse/types.hpp>

namespace stepfuse {

// The element-domain values of one instruction over a piece, 32 raw bits each; stride 0 is one
// value broadcast from a coarser domain.
struct Column {
  const uint32_t* data = nullptr;
  int stride = 1;
};

// out[i] = op(a[i], b[i], c[i]) for i < n; `in` and `out_type` as in sem::evaluate.
void evaluate_column(Op op, DType in, DType out_type, int n, Column a, Column b, Column c,
                     uint32_t* out);

}  // namespace stepfuse
