// Reduces a body for tensors that have only some of the buffers. Knows ir.
#pragma once

#include "compiler/schedule/schedule.hpp"

namespace stepfuse {

// Returns the operand that a select gives for all tensors of a signature: its condition compares the number
// of elements with a constant, and the signature decides it. Otherwise returns kNoValue.
ValueId chosen(const Schedule& schedule, ValueId select, size_t signature);

// Returns the body without stores to buffers that tensors of this signature do not have, and without code
// that is then unused.
Body body_for(const Schedule& schedule, const Body& body, size_t signature);

}  // namespace stepfuse
