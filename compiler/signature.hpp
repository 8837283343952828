// What the tensors of a step are stored as: what a program is optimized and scheduled for. Knows ir.
#pragma once

#include <algorithm>
#include <vector>

#include <stepfuse/program.hpp>

namespace stepfuse {

// The storage type of every buffer, for one tensor; DType::absent of one that the tensor has not.
using Signature = std::vector<DType>;

// Whether a buffer can stand so in a signature.
inline bool can_be(const Buffer& b, DType t) {
  return t == DType::absent ? !b.is_of_all() : t < DType::bound && b.dtypes.contains(t);
}

// The signature of a tensor, or shard, of a full tensor of so many elements, from the types of its buffers.
inline Signature of_size(const Program& p, uint64_t elements, Signature types) {
  for (size_t b = 0; b < types.size(); ++b) {
    if (!p.buffers[b].is_of(elements)) types[b] = DType::absent;
  }
  return types;
}

// What a signature tells of its tensors' sizes: from <= elements < below.
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
