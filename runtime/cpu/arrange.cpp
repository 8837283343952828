// Arranges the values of a tile; codes are transposed in squares of whole words. Knows the plan and the kernel ABI.
#include "runtime/cpu/arrange.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace stepfuse {
namespace {

constexpr auto kSide = static_cast<uint64_t>(kArrangedTile.columns);

uint64_t own_tiles(const abi::Tensor& t) {
  return tile_count(kArrangedTile, shape_of(t.size, t.columns));
}

// Transposes a square of codes: word i has the codes of row i, in its low bits first.
template <int kBits>
void turn(std::array<uint32_t, 32 / kBits>& words) {
  for (size_t d = words.size() / 2; d > 0; d /= 2) {
    auto shift = static_cast<unsigned>(d) * kBits;
    uint32_t low = ~0U / ((1U << shift) + 1);  // the low `shift` bits of every 2 * shift
    for (size_t i = 0; i < words.size(); ++i) {
      if ((i & d) != 0) continue;
      uint32_t crossed = ((words[i] >> shift) ^ words[i + d]) & low;
      words[i + d] ^= crossed;
      words[i] ^= crossed << shift;
    }
  }
}

// Rows and columns are multiples of 16, so lines consist of whole words.
template <int kBits>
void transpose(const ArrangedTiles::Tile& tile, const void* from, void* to) {
  constexpr uint64_t kCodes = 32 / kBits;
  uint64_t end_row = std::min(tile.row + kSide, tile.shape.rows);
  uint64_t end_column = std::min(tile.column + kSide, tile.shape.columns);
  auto word = [](const void* values, uint64_t code) {
    return static_cast<const char*>(values) + code * kBits / 8;
  };
  for (uint64_t column = tile.column; column < end_column; column += kCodes) {
    for (uint64_t row = tile.row; row < end_row; row += kCodes) {
      std::array<uint32_t, kCodes> words;
      for (uint64_t i = 0; i < kCodes; ++i) {
        std::memcpy(&words[i], word(from, (row + i) * tile.shape.columns + column), 4);
      }
      turn<kBits>(words);
      for (uint64_t i = 0; i < kCodes; ++i) {
        std::memcpy(const_cast<char*>(word(to, (column + i) * tile.shape.rows + row)), &words[i],
                    4);
      }
    }
  }
}

// Values of blocks or squares, of kBytes bytes.
template <size_t kBytes>
void arrange_values(const plan::Arrangement& a, const ArrangedTiles::Tile& tile, const void* from,
                    void* to) {
  ArrangedShape matrix = arranged_shape(a.order, a.at, tile.shape);
  auto rows = static_cast<uint64_t>(a.at.rows), columns = static_cast<uint64_t>(a.at.columns);
  bool turned = a.order.transposed;
  uint64_t first_line = (turned ? tile.column : tile.row) / rows;
  uint64_t first_place = (turned ? tile.row : tile.column) / columns;
  uint64_t lines = matrix.lines, places = matrix.places;
  if (a.order.swizzled) {  // zeros at the ends, too
    lines = tiles_along(lines, kSwizzledLines) * kSwizzledLines;
    places = tiles_along(places, kSwizzledPlaces) * kSwizzledPlaces;
  }
  lines = std::min(lines, first_line + kSide / rows);
  places = std::min(places, first_place + kSide / columns);
  for (uint64_t line = first_line; line < lines; ++line) {
    for (uint64_t place = first_place; place < places; ++place) {
      char* target = static_cast<char*>(to) + arranged_index(a.order, matrix, line, place) * kBytes;
      if (line >= matrix.lines || place >= matrix.places) {
        std::memset(target, 0, kBytes);
        continue;
      }
      uint64_t row = turned ? place * columns : line * rows;
      uint64_t column = turned ? line * rows : place * columns;
      const char* source =
          static_cast<const char*>(from) + tile_index(a.at, tile.shape, row, column) * kBytes;
      std::memcpy(target, source, kBytes);
    }
  }
}

}  // namespace

ArrangedTiles::ArrangedTiles(const abi::Context& context, size_t place) noexcept
    : context_(context), bases_(context.bases + place * context.tensor_count) {
  if (context.tensor_count == 0) return;
  uint32_t last = context.tensor_count - 1;
  count_ = static_cast<uint32_t>(bases_[last] + own_tiles(context.tensors[last]));
}

ArrangedTiles::Tile ArrangedTiles::at(uint32_t number) const noexcept {
  // The last tensor whose first tile is not behind this one.
  const uint64_t* end = bases_ + context_.tensor_count;
  const uint64_t* own = std::upper_bound(bases_, end, uint64_t{number}) - 1;
  auto tensor = static_cast<uint32_t>(own - bases_);
  const abi::Tensor& t = context_.tensors[tensor];
  TensorShape shape = shape_of(t.size, t.columns);
  uint64_t across = tiles_along(shape.columns, kArrangedTile.columns);
  uint64_t tile = number - *own;
  return {tensor, (t.flags & abi::kPresent) != 0, shape, tile / across * kSide,
          tile % across * kSide};
}

void arrange_tile(const plan::Arrangement& a, const ArrangedTiles::Tile& tile, const void* from,
                  void* to) noexcept {
  switch (a.order.transposed ? a.bits_of_elements() : 0) {
    case 4:
      return transpose<4>(tile, from, to);
    case 8:
      return transpose<8>(tile, from, to);
    case 16:
      return transpose<16>(tile, from, to);
    case 32:
      return transpose<32>(tile, from, to);
    default:
      break;
  }
  switch (size_of(a.dtype)) {
    case 1:
      return arrange_values<1>(a, tile, from, to);
    case 2:
      return arrange_values<2>(a, tile, from, to);
    default:
      return arrange_values<4>(a, tile, from, to);
  }
}

}  // namespace stepfuse
