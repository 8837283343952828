// The passes: each takes a valid program and returns a valid one that computes the same bits on
// every input (any NaN counts as the same NaN). Knows ir and signatures.
//
// All are idempotent, keep the args first, the effects and stage markers in their order, and never
// move an instruction over a stage marker; a value may be dropped in favour of an earlier one.
#pragma once

#include <span>

#include <stepfuse/program.hpp>

#include "compiler/signature.hpp"

namespace stepfuse {

// Narrows what every buffer may be stored as to what `signatures` use. A buffer with one type left
// is concrete from here on; the others stay bound, and emitters resolve them per signature. Throws
// Error{compile} for a signature that does not fit the program. No signatures: nothing is bound.
Program bind_dtypes(const Program& program, std::span<const Signature> signatures);

// Drops casts to the same type and joins chains of casts whose first is exact: f16 -> f32 -> f16 is
// nothing, i32 -> f64 -> f32 is one cast, f32 -> f16 -> f32 rounds and stays.
Program collapse_casts(const Program& program);

// Evaluates elementwise ops of constants, by the interpreter's own op functions.
Program fold_constants(const Program& program);

// Exact identities: x * 1, x - 0, not not x, select of equals, … (not x + 0: it turns -0 into +0).
Program simplify(const Program& program);

// Of instructions that compute the same value the first stays.
Program merge_duplicates(const Program& program);

// Keeps args, effects, stage markers, and what they need.
Program remove_dead(const Program& program);

}  // namespace stepfuse
