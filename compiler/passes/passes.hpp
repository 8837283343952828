// The passes. Each takes a valid program and returns a valid program that computes the same bits on every
// input (any NaN counts as the same NaN). Knows ir and signatures.
//
// All are idempotent. They keep the arguments first and the order of effects and stage markers, and they
// never move an instruction across a stage marker. A value may be replaced by an earlier one.
#pragma once

#include <span>

#include <stepfuse/program.hpp>

#include "compiler/signature.hpp"

namespace stepfuse {

// Limits the storage types of every buffer to those that `signatures` use. A buffer with one remaining type
// becomes concrete; the others stay bound, and emitters resolve them per signature. Throws Error{compile}
// if a signature does not fit the program. Without signatures nothing is bound.
Program bind_dtypes(const Program& program, std::span<const Signature> signatures);

// Removes casts to the same type, and joins a chain of casts if its first cast is exact: f16 -> f32 -> f16
// disappears, i32 -> f64 -> f32 becomes one cast, and f32 -> f16 -> f32 rounds and stays.
Program collapse_casts(const Program& program);

// Evaluates elementwise ops on constants with the interpreter's own functions.
Program fold_constants(const Program& program);

// Applies exact identities: x * 1, x - 0, not not x, select of equal values, … (not x + 0, which turns -0
// into +0).
Program simplify(const Program& program);

// Keeps the first of several instructions that compute the same value.
Program merge_duplicates(const Program& program);

// Keeps arguments, effects, stage markers, and everything that they need.
Program remove_dead(const Program& program);

}  // namespace stepfuse
