// A step lowered for its kernels: what a Schedule means, with everything resolved that the text of
// every language needs alike. Pure data, and the only thing that emitters read. Knows ir's types
// and ops.
//
// Nothing here is of one machine: no vector, block or register. A type is concrete everywhere, a
// value is known by its number, and what stands in an array by the array's.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <stepfuse/form.hpp>
#include <stepfuse/ops.hpp>
#include <stepfuse/types.hpp>

#include "compiler/levels.hpp"
#include "compiler/plan/arg_layout.hpp"
#include "compiler/plan/code_guess.hpp"

namespace stepfuse::plan {

using Id = int32_t;  // of a value: an index of KernelPlan::values
inline constexpr Id kNone = -1;

struct Value {
  std::string name;  // in the text: a letter for the granularity, '_' and what the step calls it
  std::string text;  // its line in the step, for comments
  Granularity at = per::step;  // in a body, a column's value is an element's
  DType dtype = DType::f32;    // in a register; of element values it is the body that says it
  bool is_constant = false;    // stands in no code
  Bits literal;                // then
  friend bool operator==(const Value&, const Value&) = default;
};

// An array that bodies walk along.
struct Array {
  // The owner of the memory says what `index` counts: the caller's buffers, scratch arrays of the unfused form,
  // states, or reductions. A reduction has an array of results and one of partial results.
  enum class Owner : uint8_t { caller, scratch, state, result, partial };
  std::string name;  // in the text
  std::string text;  // in comments: "@grad"
  Owner owner = Owner::caller;
  int32_t index = 0;
  // Bytes of a value in the widest of its types, by which places in scratch arrays are counted.
  uint32_t max_bytes = 0;
  Granularity at = per::element;
  bool scratch() const { return owner == Owner::scratch; }
  // Whether a reduction combines rows in it, one after the other. In the first row of a tile a load then gives
  // the identity.
  bool is_combined() const {
    return owner == Owner::partial || (owner == Owner::result && is_tile(at));
  }
  friend bool operator==(const Array&, const Array&) = default;
};

struct State {
  std::string text;
  DType dtype = DType::f32;
  Granularity at = per::step;
  bool shared = false;  // of something that several steps hold
  friend bool operator==(const State&, const State&) = default;
};

// What `lookup` and `nearest` take: the values of codes, and the bounds between them
// (ir/formats/code_table.hpp), so many of which are not above x as x's code is. With a guess, number k is
// the first of code k; number 0 is below all. Without, they are a tree: behind node k stand 2k and,
// where its bound is not above x, 2k + 1; node 1 is the first, and what is behind the last ones the
// code. A tree is filled up with the largest number to one less than a power of two.
struct Table {
  std::string name, bounds_name;          // in the text
  std::string slopes_name, offsets_name;  // with a guess
  std::string text;                       // in comments: "@dynamic"
  std::vector<float> values, bounds;
  std::optional<CodeGuess> guess;
  int32_t last() const { return static_cast<int32_t>(values.size()) - 1; }
  friend bool operator==(const Table&, const Table&) = default;
};
// Bounds, and a guess where there is one, of its values.
void fill_bounds(Table* table);

// Values of `from` are folded into the members of `to` that they belong to, in the canonical order of
// ir/semantics/reduction.hpp.
struct Reduction {
  Id value = kNone;  // whose name the result has
  Op op = Op::reduce_add;
  DType dtype = DType::f32;
  Granularity from = per::element;
  Granularity to = per::step;
  // The values that are folded, one in each slot: pieces, strips, or the members of `from`. Without them rows are
  // combined in the results themselves.
  std::optional<Granularity> partials = per::piece;
  uint32_t partition = 0;  // of abi::Context::parts
  // Over elements, of nothing that is itself reduced, in the first phase: what ranks may exchange.
  bool first_level = false;
  friend bool operator==(const Reduction&, const Reduction&) = default;
};

// Which operand's type says what the op is, beside the result's.
constexpr size_t deciding_operand(Op op) { return op == Op::select ? 1 : 0; }

// Computes one value.
struct Inst {
  Id value = kNone;
  Op op = Op::cast;        // a source, a computed op, or a reduction: folded, or of a block
  DType in = DType::f32;   // of the operand that decides
  DType out = DType::f32;  // of the value
  std::array<Id, 3> operands = {kNone, kNone, kNone};
  // arg: its word; read: the state; lookup and nearest: the table; a folded reduction: its number;
  // load: of Body::arrays
  int32_t index = -1;
  int32_t level = 0;  // of element code: see Body::unit
  bool is_result() const { return is_reduction(op) && index >= 0; }
  bool reduces_block() const { return is_reduction(op) && index < 0; }
  int arity() const { return is_computed(op) || reduces_block() ? info(op).arity : 0; }
  friend bool operator==(const Inst&, const Inst&) = default;
};

// Code outside of bodies, operands first.
using Uniform = Levels<Inst>;

struct ArrayUse {
  int32_t array = 0;  // of KernelPlan::arrays
  DType dtype = DType::f32;
  bool loaded = false;
  bool stored = false;
  bool predicated = false;    // a store may leave some elements as they are
  bool loaded_later = false;  // by a phase behind this one
  friend bool operator==(const ArrayUse&, const ArrayUse&) = default;
};

struct Store {
  int32_t array = 0;  // of Body::arrays
  Id value = kNone;
  DType from = DType::f32;  // its type where it is stored; the array's may be narrower
  Id predicate = kNone;
  std::string text;
  int32_t level = 0;
  friend bool operator==(const Store&, const Store&) = default;
};

struct Combine {
  int32_t reduction = 0;
  Id operand = kNone;
  int32_t level = 0;
  friend bool operator==(const Combine&, const Combine&) = default;
};

// Where a body combines row by row into the array: in the first of so many rows a load gives the
// identity. Else 0.
int32_t combined_rows(const Array& array, const ArrayUse& use);

// What is done for each element of a chunk, in this order, where tensors have one mix of types.
struct Body {
  std::vector<uint32_t> signatures;  // whose types are equal in all that the body touches
  std::vector<ArrayUse> arrays;      // in the order of KernelPlan::arrays
  std::vector<Inst> code;            // loads included
  std::vector<Combine> reductions;   // of the phase, in pieces; others are loads, ops and stores
  std::vector<Store> stores;         // after everything of this element was loaded
  // The most elements that share a value here; 1: each has its own, and all is of level 0. Else the
  // body is done unit by unit, and in each level by level: first what blocks share, the largest
  // blocks first, then what each element has. A block's reduction is of the level behind its
  // operand's.
  int32_t unit = 1;
  std::vector<Id> kept;  // values of the element domain that another section than their own uses
  // Whether it encodes two values or more, each of which reduces a block: an element takes many registers.
  bool encodes_two() const {
    return std::count_if(code.begin(), code.end(),
                         [](const Inst& i) { return i.reduces_block(); }) > 1;
  }
  friend bool operator==(const Body&, const Body&) = default;
};
// Every signature is of one body. None at all: there is nothing to do for any element.
using Bodies = std::vector<Body>;

// Operands of reductions over members of a group or tensor domain, absent tensors too.
struct Rollup {
  Granularity from = per::tensor;
  Uniform uniform;
  std::vector<Combine> reductions;
  friend bool operator==(const Rollup&, const Rollup&) = default;
};

// What a false guard skips.
enum class Guard : uint8_t {
  none,    // there is no guard
  launch,  // everything: not even the chunks are looked at
  chunk,   // `bodies` of the chunk at hand, for which `otherwise` is done
};

struct Phase {
  std::string name;
  Uniform uniform;
  Guard guards = Guard::none;
  Id guard = kNone;
  // Over the elements of this phase, absent tensors giving identities: first those in pieces, then those in strips,
  // then those that leave nothing to fold.
  std::vector<int32_t> reductions;
  Bodies bodies;
  Bodies otherwise;
  std::vector<Rollup> rollups;  // behind the fold of `reductions`, one after the other
  bool has_work() const { return !bodies.empty() || !otherwise.empty(); }
  friend bool operator==(const Phase&, const Phase&) = default;
};

// Consecutive phases in one launch, with a grid barrier between each two.
struct Kernel {
  std::string name;  // an identifier, no other kernel's
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
  Uniform code;  // without that of the step
  std::vector<Write> writes;
  friend bool operator==(const Writes&, const Writes&) = default;
};

// Done once nobody reads a state any more. `step` reads what it needs before the first write; the
// finer domains, of present tensors only, are written first, for their code reads coarser states.
struct Finish {
  std::vector<Inst> step;
  std::vector<Writes> writes;  // at most one of each granularity, coarse to fine
  // States whose values make up a step's record, in its order: told to the host behind the writes.
  std::vector<int32_t> reports;
  friend bool operator==(const Finish&, const Finish&) = default;
};

struct KernelPlan {
  std::string name;  // of the step
  Form form = Form::fused;
  std::vector<std::string> signatures;  // as text: "@grad=f16 @weight=f32"
  std::vector<Value> values;
  std::vector<Array> arrays;  // the buffers, then the scratch arrays
  int32_t buffer_count = 0;
  std::vector<State> states;
  std::vector<Table> tables;
  ArgLayout args;
  std::vector<Reduction> reductions;  // index = number of slots and result array
  std::vector<Phase> phases;
  std::vector<Kernel> kernels;  // the last one finishes; it may do only that
  Finish finish;
  // Some value is one of rows: chunks are cut where rows end, and pieces count from where they
  // begin.
  bool has_rows = false;
  // Or of columns or squares: of so many rows, counted from row 0, the chunks that have the same
  // columns are done by one worker, in the order of rows, in a phase that combines them
  // (may_split_rows: of others by anybody). 0: in any order.
  int32_t rows_in_order = 0;
  // The granularities of the arrays that rows are combined in. Number k of them has the bases of tensors at place k of
  // abi::Context::bases.
  std::vector<Granularity> based;
  int32_t reduced_phases = 1;  // so many make all reductions of the first level

  const Value& operator[](Id v) const { return values[static_cast<size_t>(v)]; }
  const Reduction& reduction(int32_t r) const { return reductions[static_cast<size_t>(r)]; }
  const Table& table(const Inst& inst) const { return tables[static_cast<size_t>(inst.index)]; }
  const State& state(int32_t s) const { return states[static_cast<size_t>(s)]; }
  // The place of a granularity in `based`.
  size_t base_of(Granularity g) const {
    return static_cast<size_t>(std::find(based.begin(), based.end(), g) - based.begin());
  }
  const Phase& phase(int32_t p) const { return phases[static_cast<size_t>(p)]; }
  // The reductions of a phase with these partial results.
  std::vector<int32_t> reductions_in(const Phase& p, std::optional<Granularity> partials) const {
    std::vector<int32_t> found;
    for (int32_t r : p.reductions) {
      if (reduction(r).partials == partials) found.push_back(r);
    }
    return found;
  }
  // The reductions of a phase that leave something to fold.
  std::vector<int32_t> folded_in(const Phase& p) const {
    std::vector<int32_t> found;
    for (int32_t r : p.reductions) {
      if (reduction(r).partials) found.push_back(r);
    }
    return found;
  }
  bool folds(const Phase& p) const { return !folded_in(p).empty() || !p.rollups.empty(); }
  bool combines_rows(const Phase& p) const {
    return std::any_of(p.reductions.begin(), p.reductions.end(),
                       [&](int32_t r) { return ordered_rows(reduction(r).to) > 0; });
  }
  // Whether its chunks may be cut anywhere: nothing is reduced, row by row or at all.
  bool may_split(const Phase& p) const { return rows_in_order == 0 && p.reductions.empty(); }
  // Of what is walked in the order of rows: rows may be done by anybody where nothing is combined
  // from one to the next, and columns where nothing is folded along a row.
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
  // Whether it stands in bodies.
  bool is_element(Id v) const { return is_of_elements((*this)[v].at); }
  friend bool operator==(const KernelPlan&, const KernelPlan&) = default;
};

// Calls f(operand) for every value that the code uses.
template <class F>
void for_each_operand(const Inst& inst, F&& f) {
  for (int i = 0; i < inst.arity(); ++i) f(inst.operands[static_cast<size_t>(i)]);
}
template <class F>
void for_each_operand(const std::vector<Inst>& code, F&& f) {
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

// Whether the blocks of a grid that runs the kernel wait for each other: between phases, and behind
// a single one where rows or columns, of which there may be many, are folded, rolled up or written.
// Then all of them are resident.
inline bool blocks_wait(const KernelPlan& plan, const Kernel& kernel) {
  return plan.form == Form::fused && kernel.phase_count >= (plan.has_rows ? 1 : 2);
}

// Whether states of rows or columns are written.
inline bool writes_lines(const KernelPlan& plan) {
  return std::any_of(plan.finish.writes.begin(), plan.finish.writes.end(),
                     [](const Writes& w) { return splits_tensor(w.at); });
}

// Pieces of work behind the kernel's phases that all blocks of a device share, each of which begins
// when all are done with what stands before it: on tensors, rows and columns, of which there may be
// many.
int32_t shared_pieces(const KernelPlan& plan, const Kernel& kernel);

// Of those, the ones that are launches of their own: where there are rows or columns, and blocks do
// not wait.
inline int32_t launches_behind(const KernelPlan& plan, const Kernel& kernel) {
  return plan.has_rows && !blocks_wait(plan, kernel) ? shared_pieces(plan, kernel) : 0;
}

// Returns the instructions of `code` that `needed` depends on, and adds their operands to `needed`.
std::vector<Inst> needed_code(const std::vector<Inst>& code, std::set<Id>* needed);
// Drops the uniform code that neither the guard nor the bodies of a phase need: after a condition of sizes is
// decided, some is dead.
void drop_unneeded(Phase* phase);

// One pass over a unit: the code of one level and one block size (1: per element).
struct Section {
  int32_t level = 0;
  int32_t block = 1;
  std::vector<const Inst*> code;
  std::vector<const Combine*> reductions;
  std::vector<const Store*> stores;
};
// Puts a body with blocks into its order: sets `unit`, levels and `kept`.
void find_levels(const KernelPlan& plan, Body* body);
// The sections of a body with blocks, in order; none is empty.
std::vector<Section> sections_of(const KernelPlan& plan, const Body& body);

// An f32 of a body that follows from one of its loaded bytes: what each of the 256 patterns makes
// it. Of those that take more than a lookup, the ones that anything else uses.
struct ByteFunction {
  Id value = kNone, byte = kNone;  // `byte` is the load
  std::vector<float> values;
};
std::vector<ByteFunction> byte_functions_of(const KernelPlan& plan, const Body& body);

// Internal consistency: throws std::logic_error (a bug of ours).
void verify(const KernelPlan& plan);

// Readable text of the whole plan (`--emit=plan`); on request with the step's line behind each that
// is of one: "…  ; %w = load @weight : [f32]".
enum class Comments : uint8_t { none, step };
std::string print(const KernelPlan& plan, Comments comments = Comments::none);

}  // namespace stepfuse::plan

namespace stepfuse {
using plan::KernelPlan;
}
