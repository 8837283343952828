// The elementwise ops over a column of elements: semantics.hpp in a loop. Knows ir only.
#pragma once

#include <cstdint>

#include <stepfuse/ops.hpp>
#include <stepfuse/types.hpp>

namespace stepfuse {

// One instruction's per-element values over a piece, 32 raw bits each. With stride 0, one coarser value is
// broadcast.
struct Column {
  const uint32_t* data = nullptr;
  int stride = 1;
};

// Computes out[i] = op(a[i], b[i], c[i]) for i < n; `in` and `out_type` as in sem::evaluate.
void evaluate_column(Op op, DType in, DType out_type, int n, Column a, Column b, Column c,
                     uint32_t* out);

}  // namespace stepfuse
