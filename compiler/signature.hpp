// Storage types of a step's tensors, for which a program is optimized and scheduled. Knows ir.
#pragma once

#include <algorithm>
#include <vector>

#include <stepfuse/program.hpp>

namespace stepfuse {

// The storage type of every buffer for one tensor; DType::absent if the tensor does not have the buffer.
using Signature = std::vector<DType>;

// Whether a signature may have this type for the buffer.
inline bool can_be(const Buffer& b, DType t) {
  return t == DType::absent ? !b.is_of_all() : t < DType::bound && b.dtypes.contains(t);
}

// Marks the buffers as absent that a full tensor with this number of elements does not have.
inline Signature of_size(const Program& p, uint64_t elements, Signature types) {
  for (size_t b = 0; b < types.size(); ++b) {
    if (!p.buffers[b].is_of(elements)) types[b] = DType::absent;
  }
  return types;
}

// The range of tensor sizes that a signature implies: from <= elements < below.
struct TensorSizes {
  uint64_t from = 0;
  uint64_t below = Buffer::kAnySize;
};
inline TensorSizes sizes_of(const Program& p, const Signature& signature) {
  TensorSizes sizes;
  for (size_t b = 0; b < signature.size(); ++b) {
    const Buffer& buffer = p.buffers[b];
    if (buffer.is_of_all()) continue;
    if (signature[b] != DType::absent) {
      sizes.from = std::max(sizes.from, buffer.from);
      sizes.below = std::min(sizes.below, buffer.below);
    } else if (buffer.from == 0) {
      sizes.from = std::max(sizes.from, buffer.below);
    } else if (buffer.below == Buffer::kAnySize) {
      sizes.below = std::min(sizes.below, buffer.from);
    }
  }
  return sizes;
}

}  // namespace stepfuse
