// Folds the slots of a reduction to its results, in the canonical order of ir/semantics/reduction.hpp and bit
// for bit equal to it, but fast and without allocating. Knows the kernel ABI.
#pragma once

#include <stepfuse/ops.hpp>
#include <stepfuse/types.hpp>

#include "compiler/abi.hpp"

namespace stepfuse {

// `count` values of dtype `t` (bool: bytes) to one.
void fold_array(Op op, DType t, const void* values, uint64_t count, void* result) noexcept;

// slots[reduction] to results[reduction]: a value for each of the parts [first, last), from the slots
// of its own members.
void fold_slots(const abi::Context& context, int reduction, Op op, DType t,
                const abi::Partition& parts, uint32_t first, uint32_t last) noexcept;

// The same of a reduction to columns, which combines strips: columns [first, last) of all tensors'.
void fold_strips(const abi::Context& context, int reduction, Op op, DType t, uint32_t first,
                 uint32_t last) noexcept;

}  // namespace stepfuse
