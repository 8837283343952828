// What the tensors of a step are stored as: what a program is optimized and scheduled for. Knows ir.
#pragma once

#include <vector>

#include <stepfuse/types.hpp>

namespace stepfuse {

// The storage type of every buffer, for one tensor.
using Signature = std::vector<DType>;

}  // namespace stepfuse
