// The op table of the C emitter: types, literals and one expression per op. Knows ir's types and ops, and
// the expansions of ops that C does not have.
#pragma once

#include <string>
#include <string_view>

#include <stepfuse/ops.hpp>
#include <stepfuse/types.hpp>

#include "compiler/plan/expansions.hpp"

namespace stepfuse::c {

std::string value_type(DType t);       // of a variable
std::string memory_type(DType t);      // of an array: bool is a byte
std::string literal(Bits v, DType t);  // has exactly these bits

// Whether C has the op itself, although there is an expansion.
bool is_native(Op op, DType in, DType out);

// Writes an elementwise op on operands given as expressions; `in` is the dtype of the deciding operand.
// `within` is the expansion that contains it, if any.
std::string expression(Op op, DType in, DType out, const std::string& a, const std::string& b,
                       const std::string& c, const plan::Expansion* within = nullptr);

// Writes an expansion as a function.
std::string function(const plan::Expansion& expansion);

}  // namespace stepfuse::c
