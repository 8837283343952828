// A step as a value: declarations and a flat list of SSA instructions. Knows ir only.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <stepfuse/arrangement.hpp>
#include <stepfuse/error.hpp>
#include <stepfuse/ops.hpp>
#include <stepfuse/types.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

// An index into Program::insts. Every instruction has one, even effects, which define no value.
using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

enum class Access : uint8_t { in, out, inout };
std::string_view name(Access a);

// One array per tensor, which the caller owns. The layout fixes the storage type of each tensor's array,
// and it is one of `dtypes`.
struct Buffer {
  // The values that init_state() gives it: none, zeros (`= 0`), or a converted copy of another buffer (`=
  // @weight`, for master weights).
  enum class Init : uint8_t { none, zero, copy };

  std::string name;
  DTypeSet dtypes;
  Access access = Access::in;
  Init init = Init::none;
  int32_t init_from = -1;  // with Init::copy: an earlier buffer
  Granularity at = per::element;
  // Only tensors with these numbers of elements have the buffer: `from 4096`, `below 4096`. For a shard the
  // full tensor's number counts. For other tensors, a load gives zeros and a store does nothing.
  uint64_t from = 0;
  uint64_t below = kAnySize;
  static constexpr uint64_t kAnySize = ~uint64_t{0};
  // The step fills this `out` buffer with the values of another one, after all stores, in this order:
  // `transposed of @weight`. It has that buffer's type, and -1 stands for none.
  Order order = {};
  int32_t arranges = -1;

  bool is_of(uint64_t full_tensor) const { return from <= full_tensor && full_tensor < below; }
  bool is_of_all() const { return from == 0 && below == kAnySize; }
  // Returns the number of values in the array of a tensor, or shard, with this many elements and columns.
  // Blocks are counted from element 0 and may span rows.
  uint64_t count(uint64_t elements, uint64_t columns) const {
    if (order.any()) return arranged_count(order, at, shape_of(elements, columns));
    return tile_count(at,
                      needs_rows(at) ? shape_of(elements, columns) : shape_of(elements, elements));
  }
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

// The values of codes 0, 1, 2, …, in ascending order. Narrow formats store such codes.
struct Table {
  std::string name;
  std::vector<float> values;
  friend bool operator==(const Table&, const Table&) = default;
};
inline constexpr size_t kLargestTable = 256;

// A value on the device that is kept from step to step. A `shared` state belongs to an object that several
// steps use (a loss scaler). The program never reads a `report`; it is a statistic of the step.
struct State {
  std::string name;
  Type type;
  bool shared = false;
  bool report = false;
  Bits initial;  // `= 65536`; otherwise zero
  friend bool operator==(const State&, const State&) = default;
};

// A value that a run passes. Program::insts[i] is the Op::arg of Program::args[i].
struct Arg {
  std::string name;
  Type type;
  std::optional<Bits> fallback;  // `= 0.001`: the value if a run does not set it
  friend bool operator==(const Arg&, const Arg&) = default;
};

struct Inst {
  Op op = Op::constant;
  Type type;  // of the result; for effects, of the stored value
  std::array<ValueId, 3> operands = {kNoValue, kNoValue, kNoValue};
  ValueId predicate = kNoValue;  // store and write only
  // load/store: buffer; read/write: state; lookup/nearest: table; arg: argument; stage: stage
  int32_t slot = -1;
  Bits literal;  // const only

  int arity() const { return info(op).arity; }
  friend bool operator==(const Inst&, const Inst&) = default;
};

struct Program {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<State> states;
  std::vector<Table> tables;
  std::vector<Arg> args;
  std::vector<std::string> stages;  // names of the classic stages, in order of their markers
  std::vector<Inst> insts;
  std::vector<std::string> names;  // of values, without '%'; "" for effects
  std::vector<SourceLoc> locs;     // parallel to insts; not part of equality
  // Positions of the declarations, if the program came from text; not part of equality.
  std::vector<SourceLoc> buffer_locs;
  std::vector<SourceLoc> state_locs;
  std::vector<SourceLoc> table_locs;

  const Inst& operator[](ValueId v) const { return insts[static_cast<size_t>(v)]; }
  ValueId size() const { return static_cast<ValueId>(insts.size()); }
  // Returns -1 if there is none with that name.
  int find_buffer(std::string_view buffer_name) const;
  int find_state(std::string_view state_name) const;
  int find_arg(std::string_view arg_name) const;

  friend bool operator==(const Program& a, const Program& b) {
    return a.name == b.name && a.buffers == b.buffers && a.states == b.states &&
           a.tables == b.tables && a.args == b.args && a.stages == b.stages && a.insts == b.insts &&
           a.names == b.names;
  }
};

// Whether a reduction is computed among the elements, because its result is per block within a row.
constexpr bool reduces_blocks(const Inst& inst) {
  return is_reduction(inst.op) && is_tile(inst.type.at) && ordered_rows(inst.type.at) == 0;
}
// Whether the result is folded from partial results, or combined row by row.
constexpr bool is_folded(const Inst& inst) {
  return is_reduction(inst.op) && !reduces_blocks(inst);
}

// Returns the granularities of a program's values, states and buffers, each once.
std::vector<Granularity> granularities_of(const Program& program);
// Whether the program treats tensors as matrices. Then no piece crosses a row.
bool has_rows(const Program& program);
// Returns the granularities in which rows are combined in sequence, each once: squares, and strips of columns.
std::vector<Granularity> combined_granularities(const Program& program);
// Whether a buffer has another one's values in a different order.
bool arranges(const Program& program);
// Returns the granularities whose values are counted through all tensors: those in which rows are combined, and the
// tiles in which values are arranged.
std::vector<Granularity> counted_granularities(const Program& program);
// Returns the number of rows that one worker processes in sequence, because something combines them; 0 if
// rows may be processed in any order.
int32_t rows_in_order(const Program& program);

// Tensors with the same buffers form a class. Returns the smallest number of elements in each, ascending
// from 0.
std::vector<uint64_t> tensor_classes(const Program& program);

// Calls f(operand) for every value operand and the predicate.
template <class F>
void for_each_operand(const Inst& inst, F&& f) {
  for (int i = 0; i < inst.arity(); ++i) f(inst.operands[static_cast<size_t>(i)]);
  if (inst.predicate != kNoValue) f(inst.predicate);
}

}  // namespace stepfuse
#pragma GCC visibility pop
