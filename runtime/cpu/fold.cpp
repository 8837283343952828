// Folds the results of pieces. Knows the kernel ABI and the reduction order.
#include "runtime/cpu/fold.hpp"

#include <algorithm>
#include <bit>

#include "ir/semantics/reduction.hpp"
#include "ir/semantics/semantics.hpp"

namespace stepfuse {
namespace {

template <class T, Op kOp>
T combine(T a, T b) {
  if constexpr (kOp == Op::reduce_add)
    return sem::add(a, b);
  else if constexpr (kOp == Op::reduce_max)
    return sem::max(a, b);
  else if constexpr (kOp == Op::reduce_min)
    return sem::min(a, b);
  else
    return a | b;
}

template <class T, Op kOp>
T identity() {
  Bits bits = reduction_identity(kOp, std::is_same_v<T, int32_t>   ? DType::i32
                                      : std::is_same_v<T, int64_t> ? DType::i64
                                      : std::is_same_v<T, float>   ? DType::f32
                                                                   : DType::f64);
  T v;
  store_bits(&v,
             sizeof(T) == 1               ? DType::boolean
             : std::is_same_v<T, int32_t> ? DType::i32
             : std::is_same_v<T, int64_t> ? DType::i64
             : std::is_same_v<T, float>   ? DType::f32
                                          : DType::f64,
             bits);
  return v;
}

// The lanes of one piece. Only the first `used_` differ from the identity.
template <class T, Op kOp>
class Lanes {
 public:
  // Adds a row of kLanes values, or the shorter last row.
  void add_row(const T* values, size_t n) {
    grow(n);
    for (size_t l = 0; l < n; ++l) lanes_[l] = combine<T, kOp>(lanes_[l], values[l]);
    count_ += n;
  }
  void add(T value) {
    size_t lane = count_ % kLanes;
    grow(lane + 1);
    lanes_[lane] = combine<T, kOp>(lanes_[lane], value);
    ++count_;
  }
  bool is_full() const { return count_ == kPieceElements; }
  bool is_empty() const { return count_ == 0; }

  // Returns the fold and resets the lanes.
  T take() {
    if (used_ == 0) return identity<T, kOp>();
    size_t size = std::bit_ceil(used_);
    grow(size);
    for (size_t d = size / 2; d > 0; d /= 2) {
      for (size_t l = 0; l < d; ++l) lanes_[l] = combine<T, kOp>(lanes_[l], lanes_[l + d]);
    }
    used_ = 0;
    count_ = 0;
    return lanes_[0];
  }

 private:
  void grow(size_t n) {
    for (; used_ < n; ++used_) lanes_[used_] = identity<T, kOp>();
  }
  size_t used_ = 0;
  size_t count_ = 0;
  T lanes_[kLanes];
};

// Folds values into pieces, the pieces' results into pieces again, and so on.
template <class T, Op kOp>
class Folder {
 public:
  static T of_one(T value) { return combine<T, kOp>(identity<T, kOp>(), value); }
  void add_row(const T* values, size_t n) {
    levels_[0].add_row(values, n);
    carry(0);
  }
  void add(T value) {
    levels_[0].add(value);
    carry(0);
  }
  T take() {
    for (int level = 0; level < top_; ++level) {
      if (!levels_[level].is_empty()) pass_up(level);
    }
    T result = levels_[top_].take();
    top_ = 0;
    return result;
  }

 private:
  static constexpr int kLevels = 3;  // 2^42 pieces

  void carry(int level) {
    while (level + 1 < kLevels && levels_[level].is_full()) pass_up(level++);
  }
  void pass_up(int level) {
    top_ = std::max(top_, level + 1);
    levels_[level + 1].add(levels_[level].take());
  }
  int top_ = 0;
  Lanes<T, kOp> levels_[kLevels];
};

template <class T, Op kOp>
T fold_range(Folder<T, kOp>& folder, const T* values, uint64_t count) {
  for (uint64_t at = 0; at < count; at += kLanes) {
    folder.add_row(values + at, static_cast<size_t>(std::min<uint64_t>(kLanes, count - at)));
  }
  return folder.take();
}

template <class T, Op kOp>
struct Typed {};

// Calls f with the Typed that belongs to a reduction.
template <class F>
void with_type(Op op, DType t, F&& f) {
  auto number = [&]<class T>(T) {
    switch (op) {
      case Op::reduce_add:
        return f(Typed<T, Op::reduce_add>{});
      case Op::reduce_max:
        return f(Typed<T, Op::reduce_max>{});
      default:
        return f(Typed<T, Op::reduce_min>{});
    }
  };
  if (op == Op::reduce_any) return f(Typed<uint8_t, Op::reduce_any>{});
  switch (t) {
    case DType::i32:
      return number(int32_t{});
    case DType::i64:
      return number(int64_t{});
    case DType::f32:
      return number(float{});
    default:
      return number(double{});
  }
}

// Calls f with a Folder of the right type.
template <class F>
void with_folder(Op op, DType t, F&& f) {
  with_type(op, t, [&]<class T, Op kOp>(Typed<T, kOp>) {
    Folder<T, kOp> folder;
    f(folder, T{});
  });
}

// Combines strips of `count` columns, `stride` values apart, into the first one. It works in place, as if
// the strips were elements: a missing strip would only contribute an identity.
template <class T, Op kOp>
void fold_columns(T* strips, uint64_t stride, uint64_t strip_count, size_t count) {
  auto into = [&](T* to, const T* from) {
    for (size_t c = 0; c < count; ++c) to[c] = combine<T, kOp>(to[c], from[c]);
  };
  for (uint64_t left = strip_count; left > 1;) {
    uint64_t pieces = 0;
    for (uint64_t begin = 0; begin < left; begin += kPieceElements, ++pieces) {
      T* piece = strips + begin * stride;
      uint64_t n = std::min<uint64_t>(kPieceElements, left - begin);
      for (uint64_t i = kLanes; i < n; ++i) into(piece + i % kLanes * stride, piece + i * stride);
      n = std::min<uint64_t>(n, kLanes);
      for (uint64_t d = kLanes / 2; d > 0; d /= 2) {
        for (uint64_t l = 0; l < d && l + d < n; ++l) {
          into(piece + l * stride, piece + (l + d) * stride);
        }
        n = std::min(n, d);
      }
      if (pieces > 0) std::copy_n(piece, count, strips + pieces * stride);
    }
    left = pieces;
  }
}

}  // namespace

void fold_array(Op op, DType t, const void* values, uint64_t count, void* result) noexcept {
  with_folder(op, t, [&]<class Folder, class T>(Folder& folder, T) {
    *static_cast<T*>(result) = fold_range(folder, static_cast<const T*>(values), count);
  });
}

void fold_slots(const abi::Context& c, int reduction, Op op, DType t, const abi::Partition& parts,
                uint32_t first, uint32_t last) noexcept {
  with_folder(op, t, [&]<class Folder, class T>(Folder& folder, T) {
    const T* slots = static_cast<const T*>(c.slots[reduction]);
    T* results = static_cast<T*>(c.results[reduction]);
    for (uint32_t m = first; m < last; ++m) {
      uint32_t begin = parts.begin[m];
      uint32_t end = parts.begin[m + 1];
      if (end == begin + 1) {  // the tensor has one piece, as most have if there are many
        results[m] = Folder::of_one(slots[parts.members == nullptr ? begin : parts.members[begin]]);
      } else if (parts.members == nullptr) {
        results[m] = fold_range(folder, slots + begin, end - begin);
      } else {
        for (uint32_t i = begin; i < end; ++i) folder.add(slots[parts.members[i]]);
        results[m] = folder.take();
      }
    }
  });
}

void fold_strips(const abi::Context& c, const uint64_t* bases, int reduction, Op op, DType t,
                 uint32_t first, uint32_t last) noexcept {
  const uint32_t* begin = c.parts[abi::kColumnsOfTensors].begin;
  const uint32_t* at = std::upper_bound(begin, begin + c.tensor_count + 1, first) - 1;
  with_type(op, t, [&]<class T, Op kOp>(Typed<T, kOp>) {
    T* slots = static_cast<T*>(c.slots[reduction]);
    T* results = static_cast<T*>(c.results[reduction]);
    for (auto tensor = static_cast<uint32_t>(at - begin); first < last; ++tensor) {
      const abi::Tensor& own = c.tensors[tensor];
      uint32_t end = std::min(last, begin[tensor + 1]);
      if (end <= first) continue;
      size_t count = end - first;
      T* strips = slots + bases[tensor] + (first - begin[tensor]);
      if ((own.flags & abi::kPresent) == 0) {
        std::fill_n(results + first, count, identity<T, kOp>());
      } else {
        uint64_t rows = own.size / own.columns;
        fold_columns<T, kOp>(strips, own.columns, (rows + kStripRows - 1) / kStripRows, count);
        std::copy_n(strips, count, results + first);
      }
      first = end;
    }
  });
}

}  // namespace stepfuse
