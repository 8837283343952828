// Folds a reduction's slots to its results, quickly and without allocating. The order is the canonical
// one of ir/semantics/reduction.hpp, and the results are bit-identical. Knows the kernel ABI.
#pragma once

#include <stepfuse/ops.hpp>
#include <stepfuse/types.hpp>

#include "compiler/abi.hpp"

namespace stepfuse {

// Folds `count` values of dtype `t` (bool: bytes) to one.
void fold_array(Op op, DType t, const void* values, uint64_t count, void* result) noexcept;

// Folds slots[reduction] to results[reduction]: one value for each of the parts [first, last), from the
// slots of its members.
void fold_slots(const abi::Context& context, int reduction, Op op, DType t,
                const abi::Partition& parts, uint32_t first, uint32_t last) noexcept;

// Does the same for a reduction to columns, which combines strips: columns [first, last) over all
// tensors. `bases` has the place of each tensor's first strip.
void fold_strips(const abi::Context& context, const uint64_t* bases, int reduction, Op op, DType t,
                 uint32_t first, uint32_t last) noexcept;

}  // namespace stepfuse
