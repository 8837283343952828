// The elementwise ops over a column of elements. Knows ir only.
#include "ir/semantics/element_ops.hpp"

#include <utility>

#include <stepfuse/error.hpp>

#include "ir/semantics/narrow.hpp"
#include "ir/semantics/semantics.hpp"

namespace stepfuse {
namespace {

struct Columns {
  int n;
  Column a, b, c;
  uint32_t* out;
};

uint32_t to_raw(bool v) { return v ? 1U : 0U; }
uint32_t to_raw(uint32_t v) { return v; }
uint32_t to_raw(int32_t v) { return static_cast<uint32_t>(v); }
uint32_t to_raw(float v) { return std::bit_cast<uint32_t>(v); }

template <class T, class F>
void map(const Columns& k, F f) {
  auto at = [](Column col, int i) { return std::bit_cast<T>(col.data[i * col.stride]); };
  for (int i = 0; i < k.n; ++i) k.out[i] = to_raw(f(at(k.a, i), at(k.b, i), at(k.c, i)));
}

// The ops that are worth a loop of their own. sem::evaluate computes the others one by one.
template <class T>
bool map_number(Op op, const Columns& k) {
  switch (op) {
    case Op::neg:
      map<T>(k, [](T a, T, T) { return sem::neg(a); });
      return true;
    case Op::abs:
      map<T>(k, [](T a, T, T) { return sem::abs(a); });
      return true;
    case Op::add:
      map<T>(k, [](T a, T b, T) { return sem::add(a, b); });
      return true;
    case Op::sub:
      map<T>(k, [](T a, T b, T) { return sem::sub(a, b); });
      return true;
    case Op::mul:
      map<T>(k, [](T a, T b, T) { return sem::mul(a, b); });
      return true;
    case Op::div:
      map<T>(k, [](T a, T b, T) { return sem::div(a, b); });
      return true;
    case Op::min:
      map<T>(k, [](T a, T b, T) { return sem::min(a, b); });
      return true;
    case Op::max:
      map<T>(k, [](T a, T b, T) { return sem::max(a, b); });
      return true;
    case Op::lt:
      map<T>(k, [](T a, T b, T) { return a < b; });
      return true;
    case Op::le:
      map<T>(k, [](T a, T b, T) { return a <= b; });
      return true;
    case Op::gt:
      map<T>(k, [](T a, T b, T) { return a > b; });
      return true;
    case Op::eq:
      map<T>(k, [](T a, T b, T) { return a == b; });
      return true;
    case Op::clamp:
      map<T>(k, [](T a, T b, T c) { return sem::clamp(a, b, c); });
      return true;
    default:
      return false;
  }
}

bool map_real(Op op, const Columns& k) {
  using F = float;
  switch (op) {
    case Op::sqrt:
      map<F>(k, [](F a, F, F) { return std::sqrt(a); });
      return true;
    case Op::rcp:
      map<F>(k, [](F a, F, F) { return 1.0F / a; });
      return true;
    case Op::fma:
      map<F>(k, [](F a, F b, F c) { return std::fma(a, b, c); });
      return true;
    case Op::isfinite:
      map<F>(k, [](F a, F, F) { return static_cast<bool>(std::isfinite(a)); });
      return true;
    default:
      return false;
  }
}

// Ops that only move or combine bits, of any type.
bool map_bits(Op op, const Columns& k) {
  using U = uint32_t;
  switch (op) {
    case Op::select:
      map<U>(k, [](U a, U b, U c) { return a != 0 ? b : c; });
      return true;
    case Op::logical_not:
      map<U>(k, [](U a, U, U) { return a == 0; });
      return true;
    case Op::bit_and:
      map<U>(k, [](U a, U b, U) { return a & b; });
      return true;
    case Op::bit_or:
      map<U>(k, [](U a, U b, U) { return a | b; });
      return true;
    case Op::bit_xor:
      map<U>(k, [](U a, U b, U) { return a ^ b; });
      return true;
    default:
      return false;
  }
}

// Casts between f32 and a type that is a constant here, so that the compiler knows its format.
template <DType T>
bool map_cast(Op op, DType from, DType to, const Columns& k) {
  if constexpr (!is_low_precision(T)) {
    return false;
  } else if (op == Op::cast_sr && to == T) {
    using U = uint32_t;
    map<U>(k, [](U a, U b, U) { return narrow_stochastic(std::bit_cast<float>(a), b, T); });
    return true;
  } else if (op == Op::cast && from == DType::f32 && to == T) {
    map<float>(k, [](float a, float, float) { return narrow(a, T); });
    return true;
  } else if (op == Op::cast && from == T && to == DType::f32) {
    map<uint32_t>(k, [](uint32_t a, uint32_t, uint32_t) { return widen(a, T); });
    return true;
  }
  return false;
}

template <size_t... kTypes>
bool map_any_cast(Op op, DType from, DType to, const Columns& k, std::index_sequence<kTypes...>) {
  return (map_cast<static_cast<DType>(kTypes)>(op, from, to, k) || ...);
}

}  // namespace

void evaluate_column(Op op, DType in, DType out_type, int n, Column a, Column b, Column c,
                     uint32_t* out) {
  Columns k{n, a, b, c, out};
  // Ops read only the operands they have; the other pointers just have to be readable.
  if (k.b.data == nullptr) k.b = k.a;
  if (k.c.data == nullptr) k.c = k.a;
  if (in == DType::f32 && (map_number<float>(op, k) || map_real(op, k))) return;
  if (in == DType::i32 && map_number<int32_t>(op, k)) return;
  if (map_bits(op, k)) return;
  if (map_any_cast(op, in, out_type, k, std::make_index_sequence<kDTypeCount>())) return;
  auto at = [](Column col, int i) { return Bits{col.data[i * col.stride]}; };
  for (int i = 0; i < n; ++i) {
    Bits v = sem::evaluate(op, in, out_type, at(k.a, i), at(k.b, i), at(k.c, i));
    out[i] = static_cast<uint32_t>(v.raw);
  }
}

}  // namespace stepfuse
