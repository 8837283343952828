// exp, log, tanh and the remainder, made of the language's ops: each backend gives the same bits. Knows
// the values of formulas.
#pragma once

#include "ir/formula/values.hpp"

namespace stepfuse::formula {

// Errors in units of the result's last place, of f32 and f64: exp and log below 1.5, tanh below 2.
// Infinities, zeros with their signs, subnormal numbers and NaN are as in C.
Operand exp(Values& v, SourceLoc loc, const Operand& x);
Operand log(Values& v, SourceLoc loc, const Operand& x);
Operand tanh(Values& v, SourceLoc loc, const Operand& x);

// The remainder of a / b, with b's sign, as in Python.
Operand remainder(Values& v, SourceLoc loc, const Operand& a, const Operand& b);

}  // namespace stepfuse::formula
