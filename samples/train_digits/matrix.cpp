// Matrix product in register tiles that the compiler vectorises. Knows only std.
#include "samples/train_digits/matrix.hpp"

namespace digits {
namespace {

constexpr size_t kTileRows = 4;
constexpr size_t kTileCols = 8;

// A full tile: its sums stay in registers while the inner dimension goes by.
void multiply_tile(const float* a, const float* b, float* c, size_t inner, size_t cols) {
  float sums[kTileRows][kTileCols] = {};
  for (size_t k = 0; k < inner; ++k) {
    for (size_t i = 0; i < kTileRows; ++i) {
      float x = a[i * inner + k];
      for (size_t j = 0; j < kTileCols; ++j) sums[i][j] += x * b[k * cols + j];
    }
  }
  for (size_t i = 0; i < kTileRows; ++i) {
    for (size_t j = 0; j < kTileCols; ++j) c[i * cols + j] = sums[i][j];
  }
}

void multiply_edge(const float* a, const float* b, float* c, size_t rows, size_t inner, size_t cols,
                   size_t first_col) {
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = first_col; j < cols; ++j) {
      float sum = 0;
      for (size_t k = 0; k < inner; ++k) sum += a[i * inner + k] * b[k * cols + j];
      c[i * cols + j] = sum;
    }
  }
}

}  // namespace

void multiply(const float* a, const float* b, float* c, size_t rows, size_t inner, size_t cols) {
  size_t tiled_rows = rows / kTileRows * kTileRows;
  size_t tiled_cols = cols / kTileCols * kTileCols;
  for (size_t i = 0; i < tiled_rows; i += kTileRows) {
    for (size_t j = 0; j < tiled_cols; j += kTileCols) {
      multiply_tile(a + i * inner, b + j, c + i * cols + j, inner, cols);
    }
  }
  multiply_edge(a, b, c, tiled_rows, inner, cols, tiled_cols);
  multiply_edge(a + tiled_rows * inner, b, c + tiled_rows * cols, rows - tiled_rows, inner, cols,
                0);
}

void transpose(const float* in, float* out, size_t rows, size_t cols) {
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < cols; ++j) out[j * rows + i] = in[i * cols + j];
  }
}

}  // namespace digits
