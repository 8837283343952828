// Buffers with another buffer's values in a different order, as ir/include/stepfuse/arrangement.hpp defines them;
// follows prelude.h in kernels that have such buffers. Knows its tables.

static inline uint32_t sf_code_of(const uint8_t* values, uint64_t i, uint32_t bits) {
  uint32_t v = 0;
  if (bits == 4) return values[i / 2] >> (4 * (i % 2)) & 15u;
  memcpy(&v, values + i * (bits / 8), bits / 8);
  return v;
}
static inline void sf_set_code(uint8_t* values, uint64_t i, uint32_t bits, uint32_t v) {
  if (bits == 4) {
    values[i / 2] = (uint8_t)(i % 2 == 0 ? v : values[i / 2] | v << 4);
  } else {
    memcpy(values + i * (bits / 8), &v, bits / 8);
  }
}

// Transposes elements of 4, 8, 16 or 32 bits.
static inline void sf_transpose(const sf_tensor* tensor, const void* from, void* to,
                                uint32_t bits) {
  const uint64_t columns = tensor->columns, rows = tensor->size / columns;
  for (uint64_t column = 0; column < columns; ++column) {
    for (uint64_t row = 0; row < rows; ++row) {
      const uint32_t v = sf_code_of((const uint8_t*)from, row * columns + column, bits);
      sf_set_code((uint8_t*)to, column * rows + row, bits, v);
    }
  }
}

// Arranges values of tiles of tile_rows x tile_columns elements.
static inline void sf_arrange(const sf_tensor* tensor, const void* from, void* to, uint64_t bytes,
                              uint64_t tile_rows, uint64_t tile_columns, bool transposed,
                              bool swizzled) {
  const uint64_t columns = tensor->columns, rows = (tensor->size + columns - 1) / columns;
  const uint64_t across = (columns + tile_columns - 1) / tile_columns;
  const uint64_t lines = ((transposed ? columns : rows) + tile_rows - 1) / tile_rows;
  const uint64_t places = ((transposed ? rows : columns) + tile_columns - 1) / tile_columns;
  const uint64_t tiles = (places + 3) / 4;
  if (swizzled) memset(to, 0, (lines + 127) / 128 * tiles * 512);
  for (uint64_t line = 0; line < lines; ++line) {
    for (uint64_t place = 0; place < places; ++place) {
      // The first element that has the value.
      const uint64_t along = line * tile_rows, along_line = place * tile_columns;
      const uint64_t row = transposed ? along_line : along,
                     column = transposed ? along : along_line;
      const uint64_t source = row / tile_rows * across + column / tile_columns;
      const uint64_t target = swizzled ? (line / 128 * tiles + place / 4) * 512 + line % 32 * 16 +
                                             line % 128 / 32 * 4 + place % 4
                                       : line * places + place;
      memcpy((uint8_t*)to + target * bytes, (const uint8_t*)from + source * bytes, bytes);
    }
  }
}
