// The canonical reduction order, the only one. Knows only std and the op semantics.
//
// A piece is 16,384 consecutive elements of one tensor or shard, counted from its first element. In a step
// with values of rows, columns or squares it is counted from the start of a row. A piece has 2,048 lanes, and element i
// belongs to lane i mod 2,048. A lane starts at the identity and combines its elements in ascending order.
// Lanes are folded by combining lane l+d into lane l for d = 1024, 512, … 1. The results of pieces,
// numbered through all tensors in bound order, are folded by the same routine as if they were elements,
// repeatedly until one is left.
//
// A column combines its elements strip by strip. A strip is 64 rows, counted from row 0 of the tensor,
// combined in ascending order from the identity. The strips' results are folded as those of pieces are.
//
// A square folds its part of each row as a block of as many elements as the square has columns. It combines
// these results in ascending order of rows, from the identity.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <stepfuse/ops.hpp>
#include <stepfuse/program.hpp>
#include <stepfuse/types.hpp>

#include "ir/semantics/semantics.hpp"

namespace stepfuse {

inline constexpr int kLanes = 2048;
inline constexpr int kPieceElements = per::piece.columns;
inline constexpr int kStripRows = per::strip.rows;

// Returns the pieces of a tensor, or of a shard that starts at a piece. `columns` is the number of elements
// per row in a step with per-row values, where no piece crosses a row; otherwise 0.
inline uint64_t piece_count(uint64_t elements, uint64_t columns) {
  auto pieces = [](uint64_t n) { return (n + kPieceElements - 1) / kPieceElements; };
  if (columns == 0 || elements == 0) return pieces(elements);
  return elements / columns * pieces(columns) + pieces(elements % columns);
}

// +0, -inf, +inf or false: combining it leaves a lane unchanged (no lane is ever -0).
inline Bits reduction_identity(Op op, DType t) {
  auto extreme = [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      T inf = std::numeric_limits<T>::infinity();
      return Bits::of(op == Op::reduce_max ? -inf : inf);
    } else {
      return Bits::of(op == Op::reduce_max ? std::numeric_limits<T>::min()
                                           : std::numeric_limits<T>::max());
    }
  };
  if (op == Op::reduce_add || op == Op::reduce_any) return {};
  switch (t) {
    case DType::i32:
      return extreme(int32_t{});
    case DType::i64:
      return extreme(int64_t{});
    case DType::f32:
      return extreme(float{});
    default:
      return extreme(double{});
  }
}

inline Op reduction_combiner(Op op) {
  switch (op) {
    case Op::reduce_max:
      return Op::max;
    case Op::reduce_min:
      return Op::min;
    case Op::reduce_any:
      return Op::bit_or;
    default:
      return Op::add;
  }
}

inline Bits reduction_combine(Op op, DType t, Bits a, Bits b) {
  return sem::evaluate(reduction_combiner(op), t, t, a, b, {});
}

// The lanes of one piece.
class PieceReducer {
 public:
  PieceReducer(Op op, DType t) : op_(op), dtype_(t) { reset(); }
  void reset() {
    lanes_.fill(reduction_identity(op_, dtype_));
    used_ = 0;
  }
  // `i` is the element's position in its tensor; positions must ascend.
  void add(uint64_t i, Bits v) {
    size_t l = i % kLanes;
    lanes_[l] = reduction_combine(op_, dtype_, lanes_[l], v);
    used_ = std::max(used_, l + 1);
  }
  Bits fold() const {
    auto lanes = lanes_;
    for (size_t d = kLanes / 2; d > 0; d /= 2) {
      // The lanes from used_ on are identities, and remain so.
      for (size_t l = 0; l < std::min(d, used_); ++l) {
        lanes[l] = reduction_combine(op_, dtype_, lanes[l], lanes[l + d]);
      }
    }
    return lanes[0];
  }

 private:
  Op op_;
  DType dtype_;
  std::array<Bits, kLanes> lanes_;
  size_t used_ = 0;  // the highest lane with a value, plus one
};

// Folds the first `n` values, at most one block, to one. Lane l + d is combined into lane l, for d from
// half a block down to 1. Missing values are identities.
inline Bits fold_block(const Inst& inst, const uint32_t* values, int n) {
  int block = block_of(inst.type.at);
  std::array<Bits, kLargestBlock> lanes;
  lanes.fill(reduction_identity(inst.op, inst.type.dtype));
  for (int i = 0; i < std::min(n, block); ++i) {
    lanes[static_cast<size_t>(i)] = Bits{values[i]};
  }
  for (auto d = static_cast<size_t>(block) / 2; d > 0; d /= 2) {
    for (size_t l = 0; l < d; ++l) {
      lanes[l] = reduction_combine(inst.op, inst.type.dtype, lanes[l], lanes[l + d]);
    }
  }
  return lanes[0];
}

// Gives each of `n` elements its block's value.
inline void reduce_blocks(const Inst& inst, const uint32_t* in, int n, uint32_t* out) {
  int block = block_of(inst.type.at);
  for (int first = 0; first < n; first += block) {
    Bits all = fold_block(inst, in + first, n - first);
    std::fill(out + first, out + std::min(n, first + block), static_cast<uint32_t>(all.raw));
  }
}

// Folds a list of values (results of pieces, or values of a finer granularity) to one.
inline Bits fold_values(Op op, DType t, std::vector<Bits> values) {
  if (values.empty()) return reduction_identity(op, t);
  PieceReducer reducer(op, t);
  do {
    std::vector<Bits> next;
    for (size_t begin = 0; begin < values.size(); begin += kPieceElements) {
      reducer.reset();
      size_t end = std::min(values.size(), begin + kPieceElements);
      for (size_t i = begin; i < end; ++i) reducer.add(i, values[i]);
      next.push_back(reducer.fold());
    }
    values = std::move(next);
  } while (values.size() > 1);
  return values[0];
}

}  // namespace stepfuse
