// Reductions of the vector loop: into lanes, and from lanes to the chunk's slot. Knows the plan, the kernel
// ABI, and the expression table.
#include <array>

#include "compiler/llvm/body.hpp"
#include "compiler/llvm/prelude.hpp"
#include "ir/semantics/reduction.hpp"

namespace stepfuse::llvm {

std::string BodyEmitter::combine(const Reducer& r, const std::string& a, const std::string& b,
                                 std::string_view hint) {
  if (r.op == Op::reduce_any) {
    return f_.set(hint, "or {} {}, {}", vector_.type(r.dtype), a, b);
  }
  std::array<std::string, 2> args = {a, b};
  return vector_.apply(reduction_combiner(r.op), r.dtype, r.dtype, args, hint);
}

std::string BodyEmitter::combine_next(const Reducer& r, const std::string& old) {
  std::string v = vectors_.at(r.operand);
  if (r.op == Op::reduce_any) {
    v = f_.set("seen", "sext {} {} to {}", vector_.type(DType::boolean), v, vector_.type(r.dtype));
  }
  std::string with = combine(r, old, v, "combined");
  if (active_.empty()) return with;
  std::string type = vector_.type(r.dtype);
  return f_.set("combined", "select {} {}, {} {}, {} {}", vector_.type(DType::boolean), active_,
                type, with, type, old);
}

std::string BodyEmitter::identity(const Reducer& r) const {
  return vector_.constant(r.dtype, reduction_identity(r.op, r.slot_dtype));
}

std::string BodyEmitter::load_register(const Reducer& r) {
  return f_.set(r.name, "load {}, ptr {}, align 64", vector_.type(r.dtype), r.array);
}
void BodyEmitter::set_register(const Reducer& r, const std::string& value) {
  f_.line("store {} {}, ptr {}, align 64", vector_.type(r.dtype), value, r.array);
}

void BodyEmitter::reduce(const Reducer& r, const std::string& i) {
  // Integers, minima, maxima and `any` have the same result in every order.
  if (!r.in_lanes) return set_register(r, combine_next(r, load_register(r)));
  // Rows of 2,048 elements: vector i belongs to the lanes from (i * vector) mod 2,048 on.
  std::string walked =
      f_.set("lane", "shl i64 {}, {}", i, std::countr_zero(static_cast<unsigned>(m_.lanes)));
  std::string lane = f_.set("lane", "and i64 {}, {}", walked, kLanes - 1);
  std::string at = f_.address("lane", r.pointer, lane, sizeof(float));
  std::string old =
      f_.set("lane", "load {}, ptr {}, align {}", vector_.type(r.dtype), at, m_.lanes * 4);
  std::string sum = combine_next(r, old);
  f_.line("store {} {}, ptr {}, align {}", vector_.type(r.dtype), sum, at, m_.lanes * 4);
}

// Rotates lanes: lane k becomes lane k + `lanes`, modulo their number.
std::string BodyEmitter::rotated(const std::string& v, DType t, int lanes) {
  return f_.shuffle("upper", vector_.type(t), v, "poison", m_.lanes,
                    [&](int k) { return (k + lanes) % m_.lanes; });
}

std::string BodyEmitter::across_lanes(const Reducer& r, std::string all) {
  for (int d = m_.lanes / 2; d > 0; d /= 2) {
    all = combine(r, all, rotated(all, r.dtype, d), r.name);
  }
  return f_.set(r.name, "extractelement {} {}, i32 0", vector_.type(r.dtype), all);
}

void BodyEmitter::fold() {
  for (const Reducer& r : reducers_) {
    if (!r.in_lanes) {
      write_folded(r, load_register(r));
      continue;
    }
    use_helper(m_, "sf_fold_lanes");
    write_slot(r,
               f_.set(r.name, "call float @sf_fold_lanes(ptr {}, i64 {})", r.array, lane_count_));
  }
}

void BodyEmitter::write_folded(const Reducer& r, const std::string& lanes) {
  std::string result = across_lanes(r, lanes);
  if (r.op == Op::reduce_any) result = f_.set(r.name, "icmp ne i32 {}, 0", result);
  write_slot(r, result);
}

void BodyEmitter::write_slot(const Reducer& r, const std::string& value) {
  DType t = r.slot_dtype;
  scalar_.store(t, value,
                u_.element(Uniform::Owner::partial, r.index, chunk_.slot, size_of(t), "slot"));
}

}  // namespace stepfuse::llvm
