// What a body is for tensors that have only some of the buffers. Knows ir.
#pragma once

#include "compiler/schedule/schedule.hpp"

namespace stepfuse {

// The operand that a select is for all tensors of a signature, where its condition asks whether
// they have fewer elements than a number and the signature tells; else kNoValue.
ValueId chosen(const Schedule& schedule, ValueId select, size_t signature);

// The body without the stores to buffers that tensors of the signature have not, and without what
// then nothing needs.
Body body_for(const Schedule& schedule, const Body& body, size_t signature);

}  // namespace stepfuse
