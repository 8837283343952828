// Granularities of the IR: how many elements share one value, and what follows from that. Knows only std.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#pragma GCC visibility push(default)
namespace stepfuse {

enum class Scope : uint8_t { step, group, tensor };
inline constexpr int32_t kAll = 0;  // instead of a number of rows or columns

// One value per step, per parameter group, or per tile of a tensor. A tile has `rows` rows by `columns`
// columns, counted from the tensor's first row and column; tiles at the ends may be smaller. Both numbers
// are kAll or powers of two. Outside of the tensor scope they are kAll.
struct Granularity {
  Scope scope = Scope::step;
  int32_t rows = kAll, columns = kAll;
  friend constexpr bool operator==(const Granularity&, const Granularity&) = default;
};

// As a type, they are written f32, {f32}, <f32>, <f32/row>, <f32/column>, [f32], <f32/256>, <f32/128x128>.
namespace per {
inline constexpr Granularity step{}, group{Scope::group}, tensor{Scope::tensor},
    row{Scope::tensor, 1, kAll}, column{Scope::tensor, kAll, 1}, element{Scope::tensor, 1, 1};
// Partial results of reductions over elements. No value of a program has these granularities.
inline constexpr Granularity piece{Scope::tensor, 1, 16384}, strip{Scope::tensor, 64, 1};
constexpr Granularity block(int32_t n) { return {Scope::tensor, 1, n}; }
constexpr Granularity square(int32_t side) { return {Scope::tensor, side, side}; }
}  // namespace per

// The tiles of a row or of several rows that a program's values may have: blocks and squares.
inline constexpr Granularity kTiles[] = {per::block(8),   per::block(16),  per::block(32),
                                         per::block(64),  per::block(128), per::block(256),
                                         per::square(16), per::square(32), per::square(128)};
inline constexpr int32_t kLargestBlock = 256;

// The granularities that have names, coarse to fine. Their positions are their numbers in the kernel ABI.
struct NamedGranularity {
  Granularity at;
  std::string_view name;
  std::string_view open, close;  // brackets around the dtype in the text
};
inline constexpr NamedGranularity kGranularities[] = {
    {per::step, "step", "", ""},
    {per::group, "group", "{", "}"},
    {per::tensor, "tensor", "<", ">"},
    {per::row, "row", "<", "/row>"},
    {per::column, "column", "<", "/column>"},
    {per::element, "element", "[", "]"},
};
// Returns the number of a granularity. Blocks and squares have that of elements, because bodies compute
// them so.
constexpr uint32_t number_of(Granularity g) {
  uint32_t last = std::size(kGranularities) - 1;
  for (uint32_t i = 0; i < last; ++i) {
    if (kGranularities[i].at == g) return i;
  }
  return last;
}
constexpr const NamedGranularity& info(Granularity g) { return kGranularities[number_of(g)]; }

// Whether a program may have values of this granularity.
constexpr bool is_legal(Granularity g) {
  for (Granularity tile : kTiles) {
    if (tile == g) return true;
  }
  return info(g).at == g;
}

// Whether a value of `from` can be used as a value of `to`, which is the same or finer: each tile of `from`
// consists of whole tiles of `to`.
constexpr bool broadcasts(Granularity from, Granularity to) {
  auto consists = [](int32_t whole, int32_t part) {
    return whole == kAll || (part != kAll && whole % part == 0);
  };
  if (from.scope != to.scope) return from.scope < to.scope;
  return consists(from.rows, to.rows) && consists(from.columns, to.columns);
}
// Returns the finer of the two if the other one broadcasts to it, and otherwise elements.
constexpr Granularity join(Granularity a, Granularity b) {
  if (broadcasts(b, a)) return a;
  return broadcasts(a, b) ? b : per::element;
}

// Whether the value varies along a row, so that bodies compute it per element. Such values have no f64, i64
// or power.
constexpr bool is_of_elements(Granularity g) { return g.columns != kAll; }
// Whether tiles end within a row and within a column, as elements, blocks and squares do.
constexpr bool is_tile(Granularity g) { return g.rows != kAll && g.columns != kAll; }
// Returns the elements of a row that share a value of a block or square; otherwise 1.
constexpr int32_t block_of(Granularity g) { return is_tile(g) ? g.columns : 1; }
// Whether a tensor has several values of this granularity.
constexpr bool splits_tensor(Granularity g) { return g.rows != kAll || g.columns != kAll; }

// Whether the granularity distinguishes rows. Programs with it treat tensors as matrices, and no piece
// crosses a row.
constexpr bool needs_rows(Granularity g) {
  return splits_tensor(g) && (g.rows != 1 || g.columns == kAll);
}
// Rows that a reduction to this granularity combines in ascending order; 0 if it combines no rows.
constexpr int32_t ordered_rows(Granularity g) {
  if (g.columns == kAll) return 0;
  return g.rows == kAll ? per::strip.rows : g.rows > 1 ? g.rows : 0;
}
// Returns the granularity of partial results, which are folded to the result. Nothing if elements are
// combined in the result itself.
constexpr std::optional<Granularity> partials_of(Granularity to) {
  if (is_tile(to)) return {};
  return to.columns == kAll ? per::piece : per::strip;
}

// The shape of a tensor or shard in a program: a matrix, or one row if no value of the program needs rows.
struct TensorShape {
  uint64_t rows = 0, columns = 0;  // both 0 if it has no elements
};
constexpr TensorShape shape_of(uint64_t elements, uint64_t columns) {
  if (elements == 0) return {};
  return {(elements + columns - 1) / columns, columns};
}
constexpr uint64_t tiles_along(uint64_t length, int32_t tile) {
  auto n = static_cast<uint64_t>(tile);
  return tile == kAll ? (length == 0 ? 0 : 1) : (length + n - 1) / n;
}
// Returns the number of values that a tensor or shard has.
constexpr uint64_t tile_count(Granularity g, TensorShape shape) {
  return tiles_along(shape.rows, g.rows) * tiles_along(shape.columns, g.columns);
}
// Returns the index of an element's value among those of its tensor, row by row of tiles.
constexpr uint64_t tile_index(Granularity g, TensorShape shape, uint64_t row, uint64_t column) {
  auto along = [](uint64_t at, int32_t tile) {
    return tile == kAll ? 0 : at / static_cast<uint64_t>(tile);
  };
  return along(row, g.rows) * tiles_along(shape.columns, g.columns) + along(column, g.columns);
}
// Whether the elements [offset, offset + size) of a tensor of this shape are whole tiles, as a shard's must
// be. True for per-tensor values, which are reduced over ranks, and for blocks, which are checked
// elsewhere.
constexpr bool is_whole(Granularity g, TensorShape full, uint64_t offset, uint64_t size) {
  uint64_t end = offset + size;
  uint64_t all = full.rows * full.columns;
  if (g.rows == kAll) return g.columns == kAll || (offset == 0 && end == all);
  if (g.rows == 1 && g.columns != kAll) return true;
  uint64_t cut = static_cast<uint64_t>(g.rows) * full.columns;
  return offset % cut == 0 && (end % cut == 0 || end == all);
}

}  // namespace stepfuse
#pragma GCC visibility pop
