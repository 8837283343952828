// How a step is executed: kernels, phases, and what each phase computes, in terms of the program.
// A KernelPlan is lowered from it. Knows ir.
//
// A reduction's result belongs to the phases after the one that computes its elements. Within a
// phase every element is independent of every other. `fused` is one kernel with a barrier between
// phases, `split` one kernel per phase, and `unfused` one kernel per classic stage, with values
// that cross stages kept in scratch arrays. All three compute the same bits.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <stepfuse/form.hpp>
#include <stepfuse/program.hpp>

#include "compiler/levels.hpp"
#include "compiler/signature.hpp"

namespace stepfuse {

// An element value that crosses kernels, in its own type: kept in and fetched from a scratch array
// of the step, or (fetches only) read back from the buffer that an earlier kernel stored it to.
struct Kept {
  ValueId value = kNoValue;
  int32_t scratch = -1;
  int32_t buffer = -1;  // exactly one of the two is set
  friend bool operator==(const Kept&, const Kept&) = default;
};

struct StoreAction {
  ValueId store = kNoValue;      // the Op::store
  ValueId predicate = kNoValue;  // kNoValue: unconditional here (none, or implied by the guard)
  friend bool operator==(const StoreAction&, const StoreAction&) = default;
};

// What is done for each element of a chunk, in this order.
struct Body {
  std::vector<Kept> fetches;  // element values that come from scratch
  // Values of elements and columns, operands first; loads, and what columns keep and reduced, included.
  std::vector<ValueId> code;
  std::vector<ValueId> reductions;  // Op::reduce_*, whose operand is combined into its lane
  std::vector<StoreAction> stores;  // after everything of this element was loaded
  std::vector<Kept> keeps;          // element values that go to scratch
  bool empty() const { return reductions.empty() && stores.empty() && keeps.empty(); }
  friend bool operator==(const Body&, const Body&) = default;
};

// Values outside of bodies that a stage needs, operands first, each in the list of its granularity. Their sources
// are in the lists too: consts, args, states (from before the step) and Op::reduce_* made before, which here mean
// "the folded result". The step code of a stage is evaluated once, the group and tensor code for each tensor that
// is worked on, that of rows for each row. Values of columns are here in rollups and the finish only; in a phase
// they are element code. A value of a bound type is held as f32 here and converted to the tensor's storage type
// where it is stored.
using UniformCode = Levels<ValueId>;

// Reductions of values of a group or tensor domain. They are made between two phases, by one thread
// block or the calling thread: first the operands of all members of `from`, absent tensors too, then
// the folds. `uniform` computes the operands.
struct Rollup {
  Granularity from = per::tensor;
  UniformCode uniform;
  std::vector<ValueId> reductions;
  friend bool operator==(const Rollup&, const Rollup&) = default;
};

struct Phase {
  std::string name;
  UniformCode uniform;
  // If set: a bool of a coarser domain than element. Where it is true (or where it is kNoValue)
  // `body` runs, else `otherwise`, which is what does not depend on it and may be empty.
  ValueId guard = kNoValue;
  Body body;
  Body otherwise;
  // In this order, after the phase's own reductions are folded, of which they may need the results.
  std::vector<Rollup> rollups;
  bool is_empty() const { return body.empty() && otherwise.empty(); }
  bool folds() const { return !body.reductions.empty() || !rollups.empty(); }
  friend bool operator==(const Phase&, const Phase&) = default;
};

// Consecutive phases in one launch, a grid barrier between each two. The last kernel also finishes;
// in the unfused form it may have no phase and do only that.
struct Kernel {
  std::string name;  // an identifier, no other kernel's
  int32_t first_phase = 0;
  int32_t phase_count = 0;
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

// Written by the last block to finish the last kernel, so that nobody reads a state after it.
struct Finish {
  UniformCode uniform;
  std::vector<ValueId> writes;  // Op::write; those to tensor states happen for present tensors only
  friend bool operator==(const Finish&, const Finish&) = default;
};

struct Schedule {
  Form form = Form::fused;
  Program program;
  std::vector<Signature>
      signatures;  // at least one; each buffer has one of its declared dtypes, or is absent
  std::vector<Phase> phases;
  std::vector<Kernel> kernels;
  Finish finish;
  std::vector<ValueId> reductions;  // every Op::reduce_*; index = its slot and result array
  std::vector<Type> scratch;        // element type of each scratch array, perhaps bound

  // The concrete dtype of `type` for a tensor of signature `s`.
  DType resolve(Type type, size_t s) const {
    return type.dtype == DType::bound ? signatures[s][static_cast<size_t>(type.buffer)]
                                      : type.dtype;
  }
  DType dtype_of(ValueId v, size_t s) const { return resolve(program[v].type, s); }
};

struct ScheduleOptions {
  Form form = Form::fused;
  std::vector<Signature> signatures;
};

// `program` is verified and optimized. Throws Error{compile} for a signature that does not fit it.
Schedule make_schedule(const Program& program, const ScheduleOptions& options);

// Internal consistency: every value a stage uses is available there, each store happens once and
// not before the last load of its buffer, … Throws std::logic_error (a bug of ours).
void verify_schedule(const Schedule& schedule);

// Readable text of the whole schedule (`--emit=schedule`).
std::string print(const Schedule& schedule);

}  // namespace stepfuse
