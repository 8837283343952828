// A step lowered for its kernels: a Schedule with everything resolved that the text of every language needs. It is
// pure data, and the only thing that emitters read. Knows ir's types and ops.
//
// Nothing here belongs to one machine: there is no vector, GPU block or register. Every type is concrete. Values and
// arrays are known by their numbers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <stepfuse/arrangement.hpp>
#include <stepfuse/form.hpp>
#include <stepfuse/ops.hpp>
#include <stepfuse/types.hpp>

#include "compiler/levels.hpp"
#include "compiler/plan/arg_layout.hpp"
#include "compiler/plan/code_guess.hpp"

namespace stepfuse::plan {

using Id = int32_t;  // a value: an index of KernelPlan::values
inline constexpr Id kNone = -1;

struct Value {
  std::string name;            // in the text: a letter for the granularity, '_' and the step's name
  std::string text;            // its line in the step, for comments
  Granularity at = per::step;  // in a body, a column's value is an element's
  DType dtype = DType::f32;    // in a register; each body has its own types of element values
  bool is_constant = false;    // no code computes it: it is the literal
  Bits literal;
  friend bool operator==(const Value&, const Value&) = default;
};

// An array that bodies access.
struct Array {
  // The memory's owner, which decides what `index` counts: the caller's buffers, scratch arrays of the
  // unfused form, states, or reductions. A reduction has an array of results and one of partial results.
  enum class Owner : uint8_t { caller, scratch, state, result, partial };
  std::string name;  // in the text
  std::string text;  // in comments: "@grad"
  Owner owner = Owner::caller;
  int32_t index = 0;
  // Bytes of a value in its widest type. Positions in scratch arrays are counted in this unit.
  uint32_t max_bytes = 0;
  Granularity at = per::element;
  bool scratch() const { return owner == Owner::scratch; }
  // Whether a reduction combines rows in it one after the other. In the first row of a tile, a load then
  // gives the identity.
  bool is_combined() const {
    return owner == Owner::partial || (owner == Owner::result && is_tile(at));
  }
  friend bool operator==(const Array&, const Array&) = default;
};

struct State {
  std::string text;
  DType dtype = DType::f32;
  Granularity at = per::step;
  bool shared = false;  // several steps hold it together
  friend bool operator==(const State&, const State&) = default;
};

// The codebook of `lookup` and `nearest`: the values of codes, and the bounds between them
// (ir/formats/code_table.hpp). The code of x is the number of bounds that are not above x. With a guess, bounds[k] is
// the smallest number with code k, and bounds[0] is below all. Without one, the bounds are a search tree: node 1 is the
// root, and node k has the children 2k and, for a bound that is not above x, 2k + 1. The index behind the last node is
// the code. The tree is filled up with the largest number to one less than a power of two.
struct Table {
  std::string name, bounds_name;          // in the text
  std::string slopes_name, offsets_name;  // only with a guess
  std::string text;                       // in comments: "@dynamic"
  std::vector<float> values, bounds;
  std::optional<CodeGuess> guess;
  int32_t last() const { return static_cast<int32_t>(values.size()) - 1; }
  friend bool operator==(const Table&, const Table&) = default;
};
// Computes the bounds, and a guess if there is one, from the values.
void fill_bounds(Table* table);

// Folds values of `from` to the members of `to` that contain them, in the canonical order of
// ir/semantics/reduction.hpp.
struct Reduction {
  Id value = kNone;  // the result has its name
  Op op = Op::reduce_add;
  DType dtype = DType::f32;
  Granularity from = per::element;
  Granularity to = per::step;
  // The granularity of the values that are folded, one per slot: pieces, strips, or `from`. Empty if rows
  // are combined in the results themselves.
  std::optional<Granularity> partials = per::piece;
  uint32_t partition = 0;  // of abi::Context::parts
  // It reduces elements in the first phase and depends on no other reduction. So ranks may exchange it, if it
  // has one value per step, group or tensor.
  bool first_level = false;
  friend bool operator==(const Reduction&, const Reduction&) = default;
};

// The operand whose type, with the result's, decides what the op computes.
constexpr size_t deciding_operand(Op op) { return op == Op::select ? 1 : 0; }

// An instruction that computes one value.
struct Inst {
  Id value = kNone;
  Op op = Op::cast;        // a source, a computed op, or a reduction (folded, or per block)
  DType in = DType::f32;   // type of the deciding operand
  DType out = DType::f32;  // type of the value
  std::array<Id, 3> operands = {kNone, kNone, kNone};
  // arg: its word; read: the state; lookup and nearest: the table; a folded reduction: its number; load:
  // index in Body::arrays
  int32_t index = -1;
  bool kept = false;  // in a body: used in a later pass, so its values of a unit are kept
  bool is_result() const { return is_reduction(op) && index >= 0; }
  bool reduces_block() const { return is_reduction(op) && index < 0; }
  int arity() const { return is_computed(op) || reduces_block() ? info(op).arity : 0; }
  friend bool operator==(const Inst&, const Inst&) = default;
};

// The kernel's context has, for each owner, an array of arrays that `index` counts.
constexpr std::string_view context_array(Array::Owner owner) {
  constexpr std::string_view kNames[] = {"pointers", "scratch", "states", "results", "slots"};
  return kNames[static_cast<size_t>(owner)];
}
// The owner of the array in which a value stands for its member; none if the value is an argument or computed.
inline std::optional<Array::Owner> owner_of(const Inst& inst) {
  if (inst.op == Op::read) return Array::Owner::state;
  return inst.is_result() ? std::optional(Array::Owner::result) : std::nullopt;
}

// Code outside of bodies, operands first.
using Uniform = Levels<Inst>;

struct ArrayUse {
  int32_t array = 0;  // index in KernelPlan::arrays
  DType dtype = DType::f32;
  bool loaded = false;
  bool stored = false;
  bool predicated = false;    // a store may leave some elements as they are
  bool loaded_later = false;  // a later phase loads it
  friend bool operator==(const ArrayUse&, const ArrayUse&) = default;
};

struct Store {
  int32_t array = 0;  // index in Body::arrays
  Id value = kNone;
  DType from = DType::f32;  // type of the stored value; the array's type may be narrower
  Id predicate = kNone;
  std::string text;
  friend bool operator==(const Store&, const Store&) = default;
};

struct Combine {
  int32_t reduction = 0;
  Id operand = kNone;
  friend bool operator==(const Combine&, const Combine&) = default;
};

// The rows of a tile if the body combines rows in the array: in the first of them a load gives the identity. Otherwise
// 0.
int32_t combined_rows(const Array& array, const ArrayUse& use);

// One pass of a body over a unit: the code of one level and of blocks of one size (1: elements), then the reductions
// and stores of their values. A block's reduction has the level behind its operand's.
struct Pass {
  int32_t level = 0, block = 1;
  size_t first = 0, count = 0;             // instructions of Body::code
  std::vector<size_t> reductions, stores;  // of Body::reductions and Body::stores
  // Instructions of earlier passes whose values it uses, in the order of first use. It needs no operands of
  // its reductions to blocks, which read what is kept.
  std::vector<size_t> inputs;
  friend bool operator==(const Pass&, const Pass&) = default;
};

// The work per element of a chunk, for tensors that have one mix of types: code, reductions, stores.
struct Body {
  std::vector<uint32_t> signatures;  // they have equal types in all that the body touches
  std::vector<ArrayUse> arrays;      // in the order of KernelPlan::arrays
  std::vector<Inst> code;            // loads included
  std::vector<Combine> reductions;   // the phase's, in pieces; others are loads, ops and stores
  std::vector<Store> stores;         // an element's loads come first
  // The most elements that share a value here. If that is 1, there is one pass over the elements of the chunk.
  // Otherwise the body goes unit by unit, and within a unit pass by pass: by rising level, and in each level the
  // largest blocks first, then elements.
  int32_t unit = 1;
  std::vector<Pass> passes;
  std::span<const Inst> code_of(const Pass& p) const {
    return std::span(code).subspan(p.first, p.count);
  }
  // The instruction that makes an input of the pass; null for every other value.
  const Inst* input(const Pass& p, Id v) const {
    auto i = std::find_if(p.inputs.begin(), p.inputs.end(),
                          [&](size_t k) { return code[k].value == v; });
    return i == p.inputs.end() ? nullptr : &code[*i];
  }
  // Returns whether the body encodes two or more values by reductions over blocks. Such a body needs many registers.
  bool encodes_two() const {
    return std::count_if(code.begin(), code.end(),
                         [](const Inst& i) { return i.reduces_block(); }) > 1;
  }
  friend bool operator==(const Body&, const Body&) = default;
};
// Every signature has one body. Without bodies there is nothing to do for any element.
using Bodies = std::vector<Body>;

// Operands of reductions over groups, tensors, rows or columns. Absent tensors have them too.
struct Rollup {
  Granularity from = per::tensor;
  Uniform uniform;
  std::vector<Combine> reductions;
  friend bool operator==(const Rollup&, const Rollup&) = default;
};

// Fills an array of the caller with the values of another one in a different order, for tensors that are present.
// Blocks of a device, or threads of a CPU, share the tiles of kArrangedTile.
struct Arrangement {
  int32_t from = 0, to = 0;  // of KernelPlan::arrays
  DType dtype = DType::f32;
  Granularity at = per::element;
  Order order;
  std::string text;  // in comments: "transposed of @weight"
  // The bits that move together where elements or packed codes are transposed; 0 for values of blocks or squares.
  int bits_of_elements() const {
    if (packs_codes(at, dtype)) return 4;
    return at == per::element ? static_cast<int>(8 * size_of(dtype)) : 0;
  }
  friend bool operator==(const Arrangement&, const Arrangement&) = default;
};

// A part of what follows the chunks of a phase. It needs the parts before it.
struct Work {
  int32_t rollup = kNone;      // of Phase::rollups: its operands are computed first
  std::vector<int32_t> folds;  // reductions
  bool arranges = false;       // does all of KernelPlan::arrangements, behind the last phase
  // All blocks of a device share it, once all are done with what is before it. Otherwise one does it.
  bool by_all = false;
  friend bool operator==(const Work&, const Work&) = default;
};

// The part that a false guard skips.
enum class Guard : uint8_t {
  none,    // there is no guard
  launch,  // everything: no chunk is even read
  chunk,   // the `bodies` of a chunk, which does `otherwise` instead
};

struct Phase {
  std::string name;
  Uniform uniform;
  Guard guards = Guard::none;
  Id guard = kNone;
  // Reductions of this phase's elements; absent tensors give identities. Those in pieces come first, then those in
  // strips, then those that leave nothing to fold.
  std::vector<int32_t> reductions;
  Bodies bodies;
  Bodies otherwise;
  std::vector<Rollup> rollups;
  std::vector<Work> work;  // folds `reductions`, then does one rollup after the other
  bool has_work() const { return !bodies.empty() || !otherwise.empty(); }
  friend bool operator==(const Phase&, const Phase&) = default;
};

// Consecutive phases in one launch, with a grid barrier between any two of them.
struct Kernel {
  std::string name;  // an identifier that no other kernel has
  int32_t first_phase = 0;
  int32_t phase_count = 0;
  int32_t end() const { return first_phase + phase_count; }
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

struct Write {
  int32_t state = 0;
  Id value = kNone;
  Id predicate = kNone;
  std::string text;
  friend bool operator==(const Write&, const Write&) = default;
};

// The writes to the states of one granularity, and the code that each member needs for them.
struct Writes {
  Granularity at = per::step;
  Uniform code;  // without per-step code
  std::vector<Write> writes;
  friend bool operator==(const Writes&, const Writes&) = default;
};

// The writes of states, done once nobody reads one any more. `step` reads what it needs before the first write. Finer
// granularities are written first, because their code reads coarser states; tensors that are absent are left out.
struct Finish {
  std::vector<Inst> step;
  std::vector<Writes> writes;  // at most one per granularity, coarse to fine
  // States whose values make up a step's record, in its order. The host learns them after the writes.
  std::vector<int32_t> reports;
  friend bool operator==(const Finish&, const Finish&) = default;
};

struct KernelPlan {
  std::string name;  // the step's name
  Form form = Form::fused;
  std::vector<std::string> signatures;  // as text: "@grad=f16 @weight=f32"
  std::vector<Value> values;
  std::vector<Array> arrays;  // the buffers, then the scratch arrays
  int32_t buffer_count = 0;
  std::vector<State> states;
  std::vector<Table> tables;
  ArgLayout args;
  std::vector<Reduction> reductions;  // index = number of its slots and results
  std::vector<Phase> phases;
  std::vector<Kernel> kernels;  // the last one finishes, and may do nothing else
  std::vector<Arrangement> arrangements;
  Finish finish;
  // Some value tells rows apart: chunks end where rows end, and pieces count from the beginning of a row.
  bool has_rows = false;
  // A phase that combines rows gives the chunks of this many rows that have the same columns to one worker, in the
  // order of rows. Any worker may do a row of other phases (may_split_rows). 0: there is no order.
  int32_t rows_in_order = 0;
  // The granularities of the arrays that rows are combined in, and the tiles in which values are arranged. Number k of
  // them has the bases of tensors at place k of abi::Context::bases.
  std::vector<Granularity> based;
  int32_t reduced_phases = 1;  // the first phases, which make all reductions of the first level

  // Whether all blocks of a device share the work behind a phase, because it may be much: on rows, on columns, or on
  // values that are arranged.
  bool shares_work() const { return has_rows || !arrangements.empty(); }
  const Value& operator[](Id v) const { return values[static_cast<size_t>(v)]; }
  const Reduction& reduction(int32_t r) const { return reductions[static_cast<size_t>(r)]; }
  const Table& table(const Inst& inst) const { return tables[static_cast<size_t>(inst.index)]; }
  const State& state(int32_t s) const { return states[static_cast<size_t>(s)]; }
  // The place of a granularity in `based`.
  size_t base_of(Granularity g) const {
    return static_cast<size_t>(std::find(based.begin(), based.end(), g) - based.begin());
  }
  const Phase& phase(int32_t p) const { return phases[static_cast<size_t>(p)]; }
  // Returns the reductions of a phase with these partial results.
  std::vector<int32_t> reductions_in(const Phase& p, std::optional<Granularity> partials) const {
    std::vector<int32_t> found;
    for (int32_t r : p.reductions) {
      if (reduction(r).partials == partials) found.push_back(r);
    }
    return found;
  }
  // Returns the reductions of a phase that leave something to fold.
  std::vector<int32_t> folded_in(const Phase& p) const {
    std::vector<int32_t> found;
    for (int32_t r : p.reductions) {
      if (reduction(r).partials) found.push_back(r);
    }
    return found;
  }
  bool combines_rows(const Phase& p) const {
    return std::any_of(p.reductions.begin(), p.reductions.end(),
                       [&](int32_t r) { return ordered_rows(reduction(r).to) > 0; });
  }
  // Whether its chunks may be cut anywhere, because nothing is reduced.
  bool may_split(const Phase& p) const { return rows_in_order == 0 && p.reductions.empty(); }
  // If rows have an order, any worker may still do any row of a phase that combines no rows, and any columns of a phase
  // that folds nothing along a row.
  bool may_split_rows(const Phase& p) const { return rows_in_order > 0 && !combines_rows(p); }
  bool may_split_columns(const Phase& p) const {
    return rows_in_order > 0 && !may_split_rows(p) && reductions_in(p, per::piece).empty();
  }
  const Array& array(const ArrayUse& use) const { return arrays[static_cast<size_t>(use.array)]; }
  size_t scratch_count() const {
    auto n =
        std::count_if(arrays.begin(), arrays.end(), [](const Array& a) { return a.scratch(); });
    return static_cast<size_t>(n);
  }
  // Whether bodies compute it.
  bool is_element(Id v) const { return is_of_elements((*this)[v].at); }
  friend bool operator==(const KernelPlan&, const KernelPlan&) = default;
};

// Calls f(operand) for every value that the code uses.
template <class F>
void for_each_operand(const Inst& inst, F&& f) {
  for (int i = 0; i < inst.arity(); ++i) f(inst.operands[static_cast<size_t>(i)]);
}
template <class F>
void for_each_operand(std::span<const Inst> code, F&& f) {
  for (const Inst& inst : code) for_each_operand(inst, f);
}
template <class F>
void for_each_operand(const Body& body, F&& f) {
  for_each_operand(body.code, f);
  for (const Combine& c : body.reductions) f(c.operand);
  for (const Store& s : body.stores) {
    f(s.value);
    if (s.predicate != kNone) f(s.predicate);
  }
}

// Whether the blocks of a grid that runs the kernel wait for each other, so that all of them have to be resident. They
// wait between phases. If they share work, they also wait behind a single phase.
inline bool blocks_wait(const KernelPlan& plan, const Kernel& kernel) {
  return plan.form == Form::fused && kernel.phase_count >= (plan.shares_work() ? 1 : 2);
}

// Whether per-row or per-column states are written.
inline bool writes_lines(const KernelPlan& plan) {
  return std::any_of(plan.finish.writes.begin(), plan.finish.writes.end(),
                     [](const Writes& w) { return splits_tensor(w.at); });
}

// The work behind the chunks of a phase of this kernel.
std::vector<Work> work_behind(const KernelPlan& plan, const Kernel& kernel, const Phase& phase);

// Parts of the work behind the kernel's phases that all blocks of a device share, the states of rows and columns
// among them. Each begins when all blocks are done with what is before it.
int32_t shared_pieces(const KernelPlan& plan, const Kernel& kernel);

// The number of these parts that are launches of their own: all, if blocks do not wait.
inline int32_t launches_behind(const KernelPlan& plan, const Kernel& kernel) {
  return plan.shares_work() && !blocks_wait(plan, kernel) ? shared_pieces(plan, kernel) : 0;
}

// Returns the instructions of `code` that `needed` depends on, and adds their operands to `needed`.
std::vector<Inst> needed_code(const std::vector<Inst>& code, std::set<Id>* needed);
// Removes the uniform code of a phase that neither its guard nor its bodies need. Some is dead after a
// condition on sizes is decided.
void drop_unneeded(Phase* phase);

// Divides the body into passes: sorts its code, sets `unit` and `passes`, and marks what is kept.
void find_passes(const KernelPlan& plan, Body* body);

// An f32 of a body that follows from one loaded byte, with its value for each of the 256 patterns. Only functions that
// take more than a lookup and that other code uses are listed.
struct ByteFunction {
  Id value = kNone, byte = kNone;  // `byte` is the load
  std::vector<float> values;
};
std::vector<ByteFunction> byte_functions_of(const KernelPlan& plan, const Body& body);

// Checks the internal consistency; throws std::logic_error, because a violation is a bug of ours.
void verify(const KernelPlan& plan);

// Readable text of the whole plan (`--emit=plan`). Comments show the line of the step that a line comes from:
// "…  ; %w = load @weight : [f32]".
enum class Comments : uint8_t { none, step };
std::string print(const KernelPlan& plan, Comments comments = Comments::none);

}  // namespace stepfuse::plan

namespace stepfuse {
using plan::KernelPlan;
}
