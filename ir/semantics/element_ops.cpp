// The elementwise ops over a column of elements. Knows ir only.
#include "ir/semantics/element_ops.hpp"

#include <stepfuse/error.hpp>

#include "ir/semantics/semantics.hpp"

namespace stepfuse {
namespace {

struct Columns {
  int n;
  Column a, b, c;
  uint32_t* out;
};

uint32_t to_raw(bool v) { return v ? 1U : 0U; }
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
    case Op::eq:
      map<T>(k, [](T a, T b, T) { return a == b; });
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

}  // namespace

void evaluate_column(Op op, DType in, DType out_type, int n, Column a, Column b, Column c,
                     uint32_t* out) {
  Columns k{n, a, b, c, out};
  // Ops read only the operands they have; the other pointers just have to be readable.
  if (k.b.data == nullptr) k.b = k.a;
  if (k.c.data == nullptr) k.c = k.a;
  if (in == DType::f32 && (map_number<float>(op, k) || map_real(op, k))) return;
  if (in == DType::i32 && map_number<int32_t>(op, k)) return;
  auto at = [](Column col, int i) { return Bits{col.data[i * col.stride]}; };
  for (int i = 0; i < n; ++i) {
    Bits v = sem::evaluate(op, in, out_type, at(k.a, i), at(k.b, i), at(k.c, i));
    out[i] = static_cast<uint32_t>(v.raw);
  }
}

}  // namespace stepfuse
