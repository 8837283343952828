// The orders in which a buffer may have another buffer's values: transposed, and swizzled as matrix products take
// scales. Knows types and granularities.
#pragma once

#include <cstdint>

#include <stepfuse/types.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

// A tensor's values in a buffer form a matrix: a line for each row of the tensor, with a place for each element, block
// or square of the row.
//   transposed  has a line for each column of the tensor (for squares: each column of squares). A place has an element,
//               or the value of a block of the transposed line. Blocks of 8 elements in i32 are 8 codes of 4 bits, and
//               each code moves on its own. Other blocks must have the same value in as many rows as they have columns,
//               as scales of squares do.
//   swizzled    is for values of one byte. It cuts the matrix into tiles of 128 lines by 4 places, in row-major order,
//               as cuBLASLt takes the scales of blocks. In the 512 bytes of a tile, line l and place p are at byte
//               16 (l % 32) + 4 (l / 32) + p. Tiles at the ends are filled up with zeros.
struct Order {
  bool transposed = false, swizzled = false;
  constexpr bool any() const { return transposed || swizzled; }
  friend bool operator==(const Order&, const Order&) = default;
};

inline constexpr uint64_t kSwizzledLines = 128, kSwizzledPlaces = 4;

// The matrix of lines and places that an order makes of a tensor's values.
struct ArrangedShape {
  uint64_t lines = 0, places = 0;
};
constexpr ArrangedShape arranged_shape(Order order, Granularity at, TensorShape shape) {
  if (shape.rows == 0) return {};
  int32_t line_of = at.rows;  // elements along a line's side that share a line
  if (!order.transposed) {
    return {tiles_along(shape.rows, line_of), tiles_along(shape.columns, at.columns)};
  }
  return {tiles_along(shape.columns, line_of), tiles_along(shape.rows, at.columns)};
}
constexpr uint64_t swizzled_index(ArrangedShape shape, uint64_t line, uint64_t place) {
  uint64_t across = tiles_along(shape.places, kSwizzledPlaces);
  uint64_t tile = line / kSwizzledLines * across + place / kSwizzledPlaces;
  uint64_t in_tile = line % kSwizzledLines;
  return tile * kSwizzledLines * kSwizzledPlaces + in_tile % 32 * 16 + in_tile / 32 * 4 +
         place % kSwizzledPlaces;
}
// Returns the number of values that the arranged buffer has, zeros at the ends included.
constexpr uint64_t arranged_count(Order order, Granularity at, TensorShape shape) {
  ArrangedShape matrix = arranged_shape(order, at, shape);
  if (!order.swizzled) return matrix.lines * matrix.places;
  return tiles_along(matrix.lines, kSwizzledLines) * kSwizzledLines *
         tiles_along(matrix.places, kSwizzledPlaces) * kSwizzledPlaces;
}
// Returns the index of a value among those of the arranged buffer.
constexpr uint64_t arranged_index(Order order, ArrangedShape shape, uint64_t line, uint64_t place) {
  return order.swizzled ? swizzled_index(shape, line, place) : line * shape.places + place;
}
// Whether its values are words of 8 codes of 4 bits, which move one by one.
constexpr bool packs_codes(Granularity at, DType t) {
  return at == per::block(8) && t == DType::i32;
}
// The numbers of rows and of columns of a tensor must be multiples of this number. Then no block of the result crosses
// a line, and each line begins with a whole word.
constexpr uint64_t arranged_multiple(Order order, Granularity at) {
  if (!order.transposed || at.rows > 1) return 1;
  return at.columns > 16 ? static_cast<uint64_t>(at.columns) : 16;
}

// The tiles of rows and columns in which backends arrange values. With blocks of at most kLargestSwizzled elements,
// each has whole swizzled tiles.
inline constexpr Granularity kArrangedTile = per::square(128);
inline constexpr int32_t kLargestSwizzled = 32;

}  // namespace stepfuse
#pragma GCC visibility pop
