// The two matrix routines that a small network needs. Knows only std.
#pragma once

#include <cstddef>

namespace digits {

// c[rows x cols] = a[rows x inner] * b[inner x cols], all row-major, accumulated in f32 as a matrix
// unit does for f16 operands.
void multiply(const float* a, const float* b, float* c, size_t rows, size_t inner, size_t cols);

// out[cols x rows] = in[rows x cols], transposed.
void transpose(const float* in, float* out, size_t rows, size_t cols);

}  // namespace digits
