// Composes exp, log, tanh and the remainder from the language's ops, so that all backends give the same
// bits. Knows the values of formulas.
#pragma once

#include "ir/formula/values.hpp"

namespace stepfuse::formula {

// Errors in units of the last place, for f32 and f64: exp and log below 1.5, tanh below 2. Infinities,
// signed zeros, subnormal numbers and NaN behave as in C.
Operand exp(Values& v, SourceLoc loc, const Operand& x);
Operand log(Values& v, SourceLoc loc, const Operand& x);
Operand tanh(Values& v, SourceLoc loc, const Operand& x);

// Returns the remainder of a / b, with b's sign, as in Python.
Operand remainder(Values& v, SourceLoc loc, const Operand& a, const Operand& b);

}  // namespace stepfuse::formula
