// Runs a Program as the language defines it: the meaning that every backend must equal bit for bit.
// Knows ir only.
#pragma once

#include <vector>

#include <stepfuse/program.hpp>

#include "ir/semantics/step_data.hpp"

namespace stepfuse {

// One step over `data`: buffers and states are updated in place. `program` must be verified and
// `data` must fit it (one array per buffer and tensor, one value per state and domain member).
// Uses 64 KiB per element-domain value of the program, whatever the sizes.
void interpret(const Program& program, StepData& data);

// A reduction over elements: its result for each member of its domain, and the results of the pieces
// that it is folded from, in bound order.
struct Reduced {
  ValueId value = kNoValue;
  std::vector<Bits> results;
  std::vector<Bits> pieces;
};

// Only these reductions, whose operands depend on no reduction over elements; stores nothing.
void interpret_reductions(const Program& program, StepData& data, std::vector<Reduced>& wanted);
// The step with the results of some reductions given instead of computed.
void interpret(const Program& program, StepData& data, const std::vector<Reduced>& given);

}  // namespace stepfuse
