// Random types, granularities and constants for random programs. Knows ir.
#pragma once

#include <cmath>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include <stepfuse/program.hpp>

#include "tests/support/rng.hpp"

namespace stepfuse::testing {

class RandomTypes {
 protected:
  explicit RandomTypes(uint64_t seed)
      : rng_(seed, "program"),
        rows_(rng_.chance(30)),
        columns_(rng_.chance(rows_ ? 40 : 10)),
        squares_(Rng(seed, "squares").chance(15)),
        mixed_(Rng(seed, "mixed").chance(33)),
        sizes_(seed, "sizes"),
        limit_(sizes_.chance(20) ? sizes_.pick({1, 4, 16, 64, 200, 300, 4000, 20000}) : 0) {}

  DTypeSet any_storage() {
    switch (rng_.weighted({30, 28, 12, 24, 8, 10})) {
      case 0:
        return DTypeSet(DType::f32);
      case 1:
        return DTypeSet(low_precision());
      case 2:
        return kFloatStorage;
      case 3:
        return DTypeSet(low_precision(kModelTypes)) |
               (rng_.chance(60) ? DType::f32 : low_precision(kModelTypes));
      case 4:
        return DTypeSet(DType::i32);
      default:
        return DTypeSet(narrow_integer());
    }
  }
  // The sizes of tensors that have a buffer: from and below.
  std::pair<uint64_t, uint64_t> any_sizes(DTypeSet types) {
    auto limit = static_cast<uint64_t>(limit_);
    if (limit == 0 || types.size() != 1 || sizes_.chance(40)) return {0, Buffer::kAnySize};
    if (sizes_.chance(50)) return {0, limit};
    return {limit, Buffer::kAnySize};
  }
  // The tile of a value that several elements share: a block or, in programs with squares, a square. A third of
  // these, without columns, have blocks too.
  Granularity any_shared() {
    Granularity tile = kTiles[rng_.below(std::size(kTiles))];
    bool may = tile.rows > 1 ? squares_ : !squares_ || (mixed_ && !columns_);
    return may ? tile : any_shared();
  }
  bool may_share() const { return !columns_ || squares_; }

  // Values of a code table: random, or spaced as usual in practice.
  std::vector<float> rising_values() {
    if (rng_.chance(50)) return spaced_values();
    int count = rng_.chance(30) ? 256 : rng_.between(2, 33);
    std::vector<float> values = {static_cast<float>(rng_.unit() * -4)};
    while (values.size() < static_cast<size_t>(count)) {
      float last = values.back();
      auto next = last + static_cast<float>(std::ldexp(rng_.unit(), rng_.between(-24, 0)));
      if (last < 0 && rng_.chance(5)) next = 0;
      values.push_back(next > last ? next : std::nextafter(last, 1e9F));
    }
    return values;
  }

  // Spaced evenly, or in decades of one sign or of both.
  std::vector<float> spaced_values() {
    int count = rng_.chance(50) ? rng_.between(100, 256) : rng_.between(2, 33);
    double step = std::ldexp(1 + rng_.unit(), rng_.between(-9, 0));
    bool even = rng_.chance(40);
    int first = rng_.chance(40) ? 0 : -count / 2;
    std::vector<float> values;
    for (int i = 0; i < count; ++i) {
      int n = first + i;
      double size =
          even ? std::abs(n) : std::ldexp(1 + std::abs(n) % 16 / 16.0, std::abs(n) / 16) - 1;
      values.push_back(static_cast<float>(n < 0 ? -size * step : size * step));
    }
    return values;
  }

  DType low_precision(DTypeSet allowed = kLowPrecision) {
    DType t = static_cast<DType>(rng_.below(kDTypeCount));
    return allowed.contains(t) ? t : low_precision(allowed);
  }
  DType narrow_integer() { return rng_.pick({DType::u8, DType::i8, DType::i16}); }
  DType any_scalar() {
    return rng_.pick({DType::f32, DType::f32, DType::f64, DType::i32, DType::i64, DType::boolean});
  }
  Granularity any_granularity() {
    return kGranularities[rng_.weighted({16, 12, 16, rows_ ? 20 : 0, columns_ ? 24 : 0, 56})].at;
  }
  Granularity coarse_granularity() {
    return kGranularities[rng_.weighted({50, 20, 30, rows_ ? 30 : 0})].at;
  }
  Granularity up_to(Granularity d) {
    Granularity found = kGranularities[rng_.below(number_of(d) + uint64_t{1})].at;
    bool drawn = found == per::row      ? rows_ && broadcasts(found, d)
                 : found == per::column ? columns_
                                        : true;
    return drawn ? found : per::tensor;
  }
  // The granularity that a reduction of coarse values starts from.
  Granularity reduced_coarse() {
    if (rng_.chance(has_lines() ? 30 : 50)) return per::tensor;
    if (!rows_ && !columns_) return per::group;
    return columns_ && (!rows_ || rng_.chance(50)) ? per::column : per::row;
  }
  Granularity reduced_to(Granularity from) {
    Granularity to = from;
    if (rng_.chance(has_lines() ? 30 : 60)) to = per::step;
    if (from == per::element && columns_ && rng_.chance(40)) to = per::column;
    if (from == per::column && rng_.chance(40)) to = rng_.pick({per::group, per::tensor});
    while (to == from) to = up_to(from);
    return to;
  }
  // True if pieces belong to one row.
  bool has_lines() const { return rows_ || columns_ || squares_; }
  DType number_in(Granularity d) {
    if (is_of_elements(d)) return rng_.chance(75) ? DType::f32 : DType::i32;
    return rng_.pick({DType::f32, DType::f32, DType::f64, DType::i32, DType::i64});
  }
  DType integer_in(Granularity d) {
    return is_of_elements(d) || rng_.chance(60) ? DType::i32 : DType::i64;
  }
  DType real_in(Granularity d) {
    return is_of_elements(d) || rng_.chance(60) ? DType::f32 : DType::f64;
  }
  double interesting() {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    if (rng_.chance(25)) return rng_.unit() * 4 - 2;
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    constexpr double kEdges[] = {0,          -0.0,          1,     -1,    2,     0.5,   3,   -4,
                                 0.1,        1e-3,          1e-8,  65504, 65536, -2.5,  7,   255,
                                 2147483647, -2147483648.0, 1e-40, 3e38,  kInf,  -kInf, kNaN};
    return kEdges[rng_.below(std::size(kEdges))];
  }

  Op any_op() {
    if (limit_ != 0 && sizes_.chance(20)) return Op::select;
    if (rng_.chance(7)) return rng_.chance(80) ? Op::reduce_max : Op::reduce_any;
    // Casts and plain arithmetic are more frequent than the rest, as in real steps.
    if (rng_.chance(15)) return rng_.pick({Op::add, Op::sub, Op::mul, Op::div, Op::select});
    if (rng_.chance(12)) return Op::cast;
    std::vector<Op> ops;
    for (const OpInfo& o : all_ops()) {
      if (is_elementwise(o.op) || reads_table(o.op)) ops.push_back(o.op);
    }
    return rng_.pick(ops);
  }
  // An op and an operand that passes simplify, or that only look like it.
  std::pair<Op, double> near_identity() {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    return rng_.pick<std::pair<Op, double>>({{Op::add, 0.0},
                                             {Op::add, 0.0},
                                             {Op::add, -0.0},
                                             {Op::sub, 0.0},
                                             {Op::sub, -0.0},
                                             {Op::mul, 1.0},
                                             {Op::mul, -1.0},
                                             {Op::mul, 0.0},
                                             {Op::div, 1.0},
                                             {Op::div, -1.0},
                                             {Op::div, 2.0},
                                             {Op::div, 3.0},
                                             {Op::min, kInf},
                                             {Op::max, -kInf},
                                             {Op::eq, 0.0}});
  }

  Rng rng_;
  // Whether there are values of rows, columns or squares, and blocks with squares. With columns there are no blocks.
  bool rows_, columns_, squares_, mixed_;
  Rng sizes_;
  // If not 0, some buffers exist only in tensors with fewer elements, and some only in the others.
  double limit_;
};

}  // namespace stepfuse::testing
