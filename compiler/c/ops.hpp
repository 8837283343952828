// The op table of the C emitter: types, literals and one expression per op. Knows ir's types and ops.
#pragma once

#include <string>
#include <string_view>

#include <stepfuse/ops.hpp>
#include <stepfuse/types.hpp>

namespace stepfuse::c {

std::string value_type(DType t);       // in a variable
std::string memory_type(DType t);      // in an array: bool is a byte
std::string literal(Bits v, DType t);  // with exactly these bits

// An elementwise op on operands given as expressions; `in` is the dtype of the operand that decides.
std::string expression(Op op, DType in, DType out, const std::string& a, const std::string& b,
                       const std::string& c);
std::string cast_expression(DType from, DType to, const std::string& a);

}  // namespace stepfuse::c
