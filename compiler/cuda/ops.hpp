// The op table of the CUDA emitter: one C++ expression per op. Knows ir.
#pragma once

#include <string>

#include <stepfuse/ops.hpp>
#include <stepfuse/types.hpp>

namespace stepfuse::cuda {

// An elementwise op on operands given as expressions; `in` is the dtype of the operand that decides
// (of select: the second), both types concrete.
std::string expression(Op op, DType in, DType out, const std::string& a, const std::string& b,
                       const std::string& c);

// Conversion of `a`, as Op::cast does it.
std::string cast_expression(DType from, DType to, const std::string& a);

// The prelude's struct that combines two values of a reduction (not for reduce_any).
std::string_view combiner(Op reduction);

}  // namespace stepfuse::cuda
