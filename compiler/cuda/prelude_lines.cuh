// The device code of rows and columns: their tensors, and the fold of a column's strips; follows
// prelude_reduce.cuh. Knows the other preludes and abi.hpp.

// Returns the end of the rows that a worker processes in sequence, among them `line`.
SF_DEVICE u64 last_in_order(const abi::Tensor& tensor, u64 line, u64 rows) {
  const u64 lines = tensor.size / tensor.columns;
  const u64 end = line - line % rows + rows;
  return end < lines ? end : lines;
}
// Moves the start of a strip's chunk to its part number `part`; a part has `rows` rows.
SF_DEVICE void take_rows(abi::Chunk& chunk, u64 rows, u64 part, u64 columns) {
  const u64 before = rows * part;
  chunk.begin += before * columns;
  chunk.slot += u32(before * ((columns + kPieceElements - 1) / kPieceElements));
}
// Returns how many rows ahead a worker prefetches: about 8,192 elements, which a block loads in four turns. A
// warp that has a part of each row takes one turn per row.
SF_DEVICE u64 rows_ahead_of(u64 columns) {
  constexpr u64 kMost = 8, kElements = 8192;
  const u64 rows = kElements / columns;
  return rows < 1 ? 1 : rows < kMost ? rows : kMost;
}
inline constexpr u64 kPartRowsAhead = 4;
// Returns the number of the tile that has the element. Tiles of a tensor are numbered row by row.
template <u32 kRows, u32 kColumns>
SF_DEVICE u64 tile_of(const abi::Tensor& tensor, u64 line, u64 column) {
  return line / kRows * ((tensor.columns + kColumns - 1) / kColumns) + column / kColumns;
}
// Returns the index of a tensor's first value in the arrays that rows are combined in.
SF_DEVICE u64 base_of(const abi::Context& step, u32 place, u32 tensor) {
  return step.bases[u64(step.tensor_count) * place + tensor];
}

// Returns the tensor that a row or column belongs to; `begin` has the first one of each tensor.
SF_DEVICE u32 owner_of(const u32* begin, u32 tensors, u32 member) {
  u32 owner = 0;
#pragma unroll 1
  for (u32 end = tensors; end - owner > 1;) {
    const u32 middle = owner + (end - owner) / 2;
    if (begin[middle] <= member) {
      owner = middle;
    } else {
      end = middle;
    }
  }
  return owner;
}

// Combines values[(k + d) * step] into values[k * step] for k = 0 … count - 1. No result is an operand of a
// different k.
template <class R, class T>
SF_DEVICE void combine_all(T* values, u64 step, u64 d, u64 count) {
  constexpr u64 kAtOnce = 8;
#pragma unroll 1
  for (u64 first = 0; first < count; first += kAtOnce) {
    T low[kAtOnce], high[kAtOnce];
#pragma unroll
    for (u64 k = 0; k < kAtOnce; ++k) {
      const u64 at = first + k < count ? first + k : first;
      low[k] = values[at * step];
      high[k] = values[(at + d) * step];
    }
#pragma unroll
    for (u64 k = 0; k < kAtOnce; ++k) {
      if (first + k < count) values[(first + k) * step] = R::combine(low[k], high[k]);
    }
  }
}

// Folds the strips of each column, in place: a thread per column.
template <class R, class T>
SF_DEVICE void fold_strips(const abi::Context& step, u32 place, T* values, T* results, u32 block,
                           u32 blocks) {
  const u32* const begin = step.parts[abi::kColumnsOfTensors].begin;
  const u32 count = begin[step.tensor_count];
#pragma unroll 1
  for (u32 c = block * kThreads + threadIdx.x; c < count; c += blocks * kThreads) {
    const u32 t = owner_of(begin, step.tensor_count, c);
    const abi::Tensor& tensor = step.tensors[t];
    const u64 columns = tensor.columns;
    const u64 lines = (tensor.flags & abi::kPresent) != 0 ? tensor.size / columns : 0;
    T* const first = values + base_of(step, place, t) + (c - begin[t]);
    u64 left = (lines + abi::kStripRows - 1) / abi::kStripRows;
#pragma unroll 1
    while (left > 1) {
      u64 pieces = 0;
#pragma unroll 1
      for (u64 at = 0; at < left; at += kPieceElements, ++pieces) {
        const u64 n = left - at < kPieceElements ? left - at : kPieceElements;
        T* const piece = first + at * columns;
        // Combine rows of lanes one after the other, then fold the lanes.
#pragma unroll 1
        for (u64 row = abi::kLanes; row < n; row += abi::kLanes) {
          combine_all<R>(piece, columns, row, n - row < abi::kLanes ? n - row : abi::kLanes);
        }
        const u64 lanes = n < abi::kLanes ? n : abi::kLanes;
#pragma unroll 1
        for (u64 d = abi::kLanes / 2; d > 0; d /= 2) {
          if (d < lanes) combine_all<R>(piece, columns, d, lanes - d < d ? lanes - d : d);
        }
        first[pieces * columns] = *piece;
      }
      left = pieces;
    }
    results[c] = lines == 0 ? R::template identity<T>() : *first;
  }
}
