// Granularities against their definition by enumeration: the elements that share a value. Knows ir.
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/granularity.hpp>
#include <stepfuse/printer.hpp>

namespace stepfuse {
namespace {

std::vector<Granularity> all() {
  std::vector<Granularity> found = {per::step,   per::group,   per::tensor, per::row,
                                    per::column, per::element, per::strip};
  found.insert(found.end(), std::begin(kTiles), std::end(kTiles));
  return found;
}

std::string text(Granularity a, Granularity b) {
  return fmt::format("{} and {}", granularity_name(a), granularity_name(b));
}

// The elements of each value, by its number, of tensors that are long enough to tell tiles apart.
std::map<uint64_t, std::set<std::pair<uint64_t, uint64_t>>> elements_of(Granularity g,
                                                                        TensorShape shape) {
  std::map<uint64_t, std::set<std::pair<uint64_t, uint64_t>>> found;
  for (uint64_t row = 0; row < shape.rows; ++row) {
    for (uint64_t column = 0; column < shape.columns; ++column) {
      found[tile_index(g, shape, row, column)].emplace(row, column);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("values are numbered without gaps, and elements of one number share a tile") {
  for (TensorShape shape : {TensorShape{1, 1}, TensorShape{1, 700}, TensorShape{130, 40},
                            TensorShape{64, 257}, TensorShape{300, 1}}) {
    for (Granularity g : all()) {
      CAPTURE(granularity_name(g));
      auto elements = elements_of(g, shape);
      CHECK(elements.size() == tile_count(g, shape));
      CHECK(elements.rbegin()->first + 1 == tile_count(g, shape));
      for (const auto& [number, own] : elements) {
        auto [row, column] = *own.begin();
        auto [last_row, last_column] = *own.rbegin();
        CHECK((g.rows == kAll || last_row - row < static_cast<uint64_t>(g.rows)));
        CHECK((g.columns == kAll || last_column - column < static_cast<uint64_t>(g.columns)));
      }
    }
  }
  for (Granularity g : all()) CHECK(tile_count(g, shape_of(0, 5)) == 0);
}

TEST_CASE("a value broadcasts if each of its tiles consists of whole finer tiles") {
  // No tile is cut by the end of such a tensor, which would hide that it ends elsewhere.
  TensorShape shape{512, 512};
  for (Granularity from : all()) {
    for (Granularity to : all()) {
      CAPTURE(text(from, to));
      bool consists = from.scope <= to.scope;
      if (from.scope == Scope::tensor && to.scope == Scope::tensor) {
        // Corners of the finer tiles decide: both ends of each lie in one tile of `from`.
        for (uint64_t row = 0; row < shape.rows && consists;
             row += to.rows == kAll ? shape.rows : to.rows) {
          for (uint64_t column = 0; column < shape.columns;
               column += to.columns == kAll ? shape.columns : to.columns) {
            uint64_t last_row = row + (to.rows == kAll ? shape.rows : to.rows) - 1;
            uint64_t last_column = column + (to.columns == kAll ? shape.columns : to.columns) - 1;
            consists &= tile_index(from, shape, row, column) ==
                        tile_index(from, shape, last_row, last_column);
          }
        }
      }
      CHECK(broadcasts(from, to) == consists);
      Granularity finer = join(from, to);
      CHECK(broadcasts(from, finer));
      CHECK(broadcasts(to, finer));
      CHECK((finer == from || finer == to || finer == per::element));
      CHECK(finer == join(to, from));
    }
  }
}

TEST_CASE("neither of rows and columns, nor of squares and other tiles, is finer") {
  CHECK(join(per::row, per::column) == per::element);
  CHECK(join(per::row, per::square(128)) == per::element);
  CHECK(join(per::square(128), per::block(256)) == per::element);
  CHECK(join(per::column, per::block(32)) == per::element);
  CHECK(join(per::square(128), per::block(32)) == per::block(32));
  CHECK(join(per::group, per::tensor) == per::tensor);
  CHECK(join(per::row, per::tensor) == per::row);
}

TEST_CASE("a shard is whole if no value of the granularity has elements in it and outside") {
  TensorShape full{96, 10};
  for (Granularity g :
       {per::tensor, per::row, per::column, per::element, per::square(16), per::square(32)}) {
    auto elements = elements_of(g, full);
    for (uint64_t offset = 0; offset < 960; offset += 80) {
      for (uint64_t size = 80; offset + size <= 960; size += 80) {
        bool whole = true;
        for (const auto& [number, own] : elements) {
          size_t inside = 0;
          for (auto [row, column] : own) {
            uint64_t at = row * full.columns + column;
            inside += at >= offset && at < offset + size;
          }
          whole &= inside == 0 || inside == own.size();
        }
        CAPTURE(granularity_name(g));
        CAPTURE(offset);
        CAPTURE(size);
        // A value of the whole tensor is reduced over ranks.
        CHECK(is_whole(g, full, offset, size) == (whole || g == per::tensor));
      }
    }
  }
}

TEST_CASE("a reduction's partial results and order follow from its granularity") {
  CHECK(partials_of(per::step) == per::piece);
  CHECK(partials_of(per::row) == per::piece);
  CHECK(partials_of(per::column) == per::strip);
  CHECK(!partials_of(per::block(32)));
  CHECK(!partials_of(per::square(128)));
  CHECK(ordered_rows(per::row) == 0);
  CHECK(ordered_rows(per::column) == 64);
  CHECK(ordered_rows(per::block(32)) == 0);
  CHECK(ordered_rows(per::square(32)) == 32);
  for (Granularity g : {per::row, per::column, per::square(16)}) CHECK(needs_rows(g));
  for (Granularity g : {per::step, per::tensor, per::element, per::block(64)})
    CHECK(!needs_rows(g));
}

}  // namespace stepfuse
