// The device code of buffers with another buffer's values in a different order, as
// ir/include/stepfuse/arrangement.hpp defines them; follows the other preludes in kernels that have such buffers. Knows
// abi.hpp and the other preludes.

// A tile of 128 rows by 128 columns of a present tensor.
inline constexpr u32 kTileSide = 128;
struct Tile {
  u32 tensor;  // kNone: there is none
  u64 rows, columns;
  u64 row, column;  // where it begins
};
SF_DEVICE u64 tiles_of(u64 length) { return (length + kTileSide - 1) / kTileSide; }
SF_DEVICE u64 rows_of(const abi::Tensor& tensor) {
  return (tensor.size + tensor.columns - 1) / tensor.columns;
}
// Returns the number of tiles of all tensors. `bases` has the number of each tensor's first one.
SF_DEVICE u64 tile_count(const abi::Context& step, const u64* bases) {
  if (step.tensor_count == 0) return 0;
  const u32 last = step.tensor_count - 1;
  const abi::Tensor& tensor = step.tensors[last];
  return bases[last] +
         (tensor.size == 0 ? 0 : tiles_of(rows_of(tensor)) * tiles_of(tensor.columns));
}
SF_DEVICE Tile tile_at(const abi::Context& step, const u64* bases, u64 number) {
  u32 owner = 0;
#pragma unroll 1
  for (u32 end = step.tensor_count; end - owner > 1;) {
    const u32 middle = owner + (end - owner) / 2;
    if (bases[middle] <= number) {
      owner = middle;
    } else {
      end = middle;
    }
  }
  const abi::Tensor& tensor = step.tensors[owner];
  const u64 across = tiles_of(tensor.columns), own = number - bases[owner];
  const bool present = (tensor.flags & abi::kPresent) != 0;
  return {present ? owner : kNone, rows_of(tensor), tensor.columns, own / across * kTileSide,
          own % across * kTileSide};
}

// Transposes a square of codes: word i has the codes of row i, in its low bits first.
template <u32 kBits>
SF_DEVICE void turn(u32 (&words)[32 / kBits]) {
  constexpr u32 kCodes = 32 / kBits;
#pragma unroll
  for (u32 d = kCodes / 2; d > 0; d /= 2) {
    const u32 shift = d * kBits;
    // The low `shift` bits of every 2 * shift.
    const u32 low = ~0u / ((1u << shift) + 1);
#pragma unroll
    for (u32 i = 0; i < kCodes; ++i) {
      if ((i & d) != 0) continue;
      const u32 crossed = ((words[i] >> shift) ^ words[i + d]) & low;
      words[i + d] ^= crossed;
      words[i] ^= crossed << shift;
    }
  }
}

// Transposes codes of 4, 8, 16 or 32 bits. Rows and columns are multiples of 16, and arrays begin at multiples of four
// bytes. All threads of a block call it.
template <u32 kBits>
SF_DEVICE void transpose_tile(const Tile& tile, const u32* from, u32* to) {
  constexpr u32 kCodes = 32 / kBits;          // of a word
  constexpr u32 kWords = kTileSide / kCodes;  // of a tile's row
  constexpr u32 kLineWords = 8;               // of a line of the result, done at once
  constexpr u32 kRows = kLineWords * kCodes;  // done at once
  constexpr u32 kSquares = kWords * kLineWords;
  __shared__ u32 turned[kTileSide][kLineWords + 1];
  const u64 from_words = tile.columns / kCodes, to_words = tile.rows / kCodes;
#pragma unroll 1
  for (u64 row = tile.row; row < tile.row + kTileSide && row < tile.rows; row += kRows) {
#pragma unroll 1
    for (u32 k = threadIdx.x; k < kSquares; k += kThreads) {
      const u32 word = k % kWords, line_word = k / kWords;
      const u64 first = row + line_word * kCodes;
      if (first >= tile.rows || tile.column + word * kCodes >= tile.columns) continue;
      u32 words[kCodes];
#pragma unroll
      for (u32 i = 0; i < kCodes; ++i) {
        words[i] = from[(first + i) * from_words + tile.column / kCodes + word];
      }
      turn<kBits>(words);
#pragma unroll
      for (u32 i = 0; i < kCodes; ++i) turned[word * kCodes + i][line_word] = words[i];
    }
    __syncthreads();
#pragma unroll 1
    for (u32 k = threadIdx.x; k < kTileSide * kLineWords; k += kThreads) {
      const u32 line = k / kLineWords, word = k % kLineWords;
      if (tile.column + line >= tile.columns || row + word * kCodes >= tile.rows) continue;
      to[(tile.column + line) * to_words + row / kCodes + word] = turned[line][word];
    }
    __syncthreads();
  }
}

// Arranges the values of blocks or squares of kRows x kColumns elements.
template <u32 kRows, u32 kColumns, bool kTransposed, bool kSwizzled, class T>
SF_DEVICE void arrange_tile(const Tile& tile, const T* from, T* to) {
  constexpr u32 kLines = kTileSide / kRows, kPlaces = kTileSide / kColumns;
  const u64 across = (tile.columns + kColumns - 1) / kColumns;
  const u64 lines = ((kTransposed ? tile.columns : tile.rows) + kRows - 1) / kRows;
  const u64 places = ((kTransposed ? tile.rows : tile.columns) + kColumns - 1) / kColumns;
  const u64 first_line = (kTransposed ? tile.column : tile.row) / kRows;
  const u64 first_place = (kTransposed ? tile.row : tile.column) / kColumns;
  const u64 swizzles = (places + 3) / 4;
#pragma unroll 1
  for (u32 k = threadIdx.x; k < kLines * kPlaces; k += kThreads) {
    const u64 line = first_line + k / kPlaces, place = first_place + k % kPlaces;
    const bool exists = line < lines && place < places;
    if (!exists && !(kSwizzled && place < swizzles * 4)) continue;
    // The first element that has the value.
    const u64 row = kTransposed ? place * kColumns : line * kRows;
    const u64 column = kTransposed ? line * kRows : place * kColumns;
    const T value = exists ? from[row / kRows * across + column / kColumns] : T{};
    to[kSwizzled ? (line / 128 * swizzles + place / 4) * 512 + line % 32 * 16 +
                       line % 128 / 32 * 4 + place % 4
                 : line * places + place] = value;
  }
}
