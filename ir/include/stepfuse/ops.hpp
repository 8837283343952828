// The op set as an enum with its properties, generated from ops.def. Knows only std.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#pragma GCC visibility push(default)
namespace stepfuse {

enum class Op : uint8_t {
#define X(id, text, arity, rule) id,
#include <stepfuse/ops.def>
#undef X
};

// The relation between the types of operands and result. "same" means that all operands and the result have
// one dtype. The result's granularity is the finest of the operands' unless the rule says otherwise.
enum class TypeRule : uint8_t {
  constant,       // per step, any dtype
  argument,       // per step, group or tensor; f64 f32 i64 i32 bool
  read,           // the state's type
  load,           // per element, the buffer's storage type
  present,        // <bool>
  tensor_index,   // <i32>
  element_count,  // <i64>, for the tensor or for each of its rows
  element_index,  // [i32]
  random,         // (i64, i64, i32), none of them per element -> [i32]
  lookup,         // i32 -> f32
  nearest,        // f32 -> i32
  number,         // same: i32 i64 f32 f64
  real,           // same: f32 f64
  bits,           // same: bool i32 i64
  integer,        // same: i32 i64
  cast,           // between bool i32 i64 f32 f64 (not to bool); narrow floats only from and to f32
  cast_sr,        // (f32, i32) -> f32 or a narrow float
  bitcast,        // between floats and integers: f64 and i64, others and i32
  classify,       // f32 f64 -> bool
  logical,        // bool
  compare,        // two of the same dtype, i32 i64 f32 f64 -> bool
  powi,           // (f32|f64, i32|i64) -> the first's dtype; not per element
  pow,            // same: f32 f64; not per element
  select,         // (bool, T, T) -> T
  reduce,         // same: f32 f64 i32 i64; the result is coarser, or per block of elements
  reduce_any,     // bool; likewise
  store,          // into a buffer of the value's dtype
  write,          // into a state with the value's dtype, and with its granularity or a finer one
  stage,          // no operand: marks the start of a classic stage
};

struct OpInfo {
  Op op;
  std::string_view name;
  uint8_t arity;
  TypeRule rule;
};

const OpInfo& info(Op op);
std::span<const OpInfo> all_ops();
std::optional<Op> op_from_name(std::string_view text);

constexpr bool is_reduction(Op op) { return op >= Op::reduce_add && op <= Op::reduce_any; }
constexpr bool is_effect(Op op) { return op >= Op::store; }
constexpr bool is_source(Op op) { return op <= Op::element_index; }
// Whether the instruction's slot names a table of the program.
constexpr bool reads_table(Op op) { return op == Op::lookup || op == Op::nearest; }
// Whether the op is a pure function of its operands that is the same at every granularity.
constexpr bool is_elementwise(Op op) { return op >= Op::neg && op <= Op::select; }
// Whether code computes it from operands: an elementwise op, a table look-up, or a random number.
constexpr bool is_computed(Op op) { return op >= Op::random && op <= Op::select; }

}  // namespace stepfuse
#pragma GCC visibility pop
