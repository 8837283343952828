// Writes types and literals of CUDA text. Knows ir's types.
#pragma once

#include <string>
#include <string_view>

#include <stepfuse/types.hpp>

namespace stepfuse::cuda {

// Returns the C++ type of a value in a register, a buffer or a state.
std::string_view c_type(DType t);

// Returns an expression with exactly these bits.
std::string c_literal(Bits v, DType t);

}  // namespace stepfuse::cuda
