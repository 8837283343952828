// Runs a Program as the language defines it. Every backend must equal its results bit for bit. Knows ir
// only.
#pragma once

#include <vector>

#include <stepfuse/program.hpp>

#include "ir/semantics/step_data.hpp"

namespace stepfuse {

// Runs one step over `data`, and updates buffers and states in place. `program` must be verified, and
// `data` must fit it (one array per buffer and tensor, one value per state and member of its granularity).
// Uses 64 KiB per per-element value of the program, whatever the sizes are.
void interpret(const Program& program, StepData& data);

// A reduction over elements: its result for each member of its granularity, and the results of the pieces
// that are folded to it, in bound order.
struct Reduced {
  ValueId value = kNoValue;
  std::vector<Bits> results;
  std::vector<Bits> pieces;
};

// Computes only these reductions, whose operands depend on no reduction over elements; stores nothing.
void interpret_reductions(const Program& program, StepData& data, std::vector<Reduced>& wanted);
// Runs the step with the given results of some reductions instead of computing these.
void interpret(const Program& program, StepData& data, const std::vector<Reduced>& given);

}  // namespace stepfuse
