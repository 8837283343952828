// Runs a Program as the language defines it: the meaning that every backend must equal bit for bit.
// Knows ir only.
#pragma once

#include "ir/program.hpp"
#include "ir/step_data.hpp"

namespace stepfuse {

// One step over `data`: buffers and states are updated in place. `program` must be verified and
// `data` must fit it (one array per buffer and tensor, one value per state and domain member).
// Uses 64 KiB per element-domain value of the program, whatever the sizes.
void interpret(const Program& program, StepData& data);

}  // namespace stepfuse
