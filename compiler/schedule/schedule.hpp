// The execution of a step: kernels, phases, and the work of each phase, in terms of the program. It is
// lowered to a KernelPlan. Knows ir.
//
// The result of a reduction is available in the phases after the one that computes its elements. Within a
// phase, elements are independent of each other. `fused` is one kernel with a barrier between phases,
// `split` one kernel per phase, and `unfused` one kernel per classic stage, which keeps values that cross
// stages in scratch arrays. All three compute the same bits.
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

// An element value that crosses kernels. A kernel keeps it in a scratch array of the step, in its own type,
// and later ones fetch it; or they read it back from the buffer to which an earlier kernel stored it.
struct Crossing {
  ValueId value = kNoValue;
  int32_t scratch = -1;
  int32_t buffer = -1;  // exactly one of `scratch` and `buffer` is set
  friend bool operator==(const Crossing&, const Crossing&) = default;
};

struct StoreAction {
  ValueId store = kNoValue;  // the Op::store
  // kNoValue if it is unconditional here: there is none, or the guard implies it.
  ValueId predicate = kNoValue;
  friend bool operator==(const StoreAction&, const StoreAction&) = default;
};

// The work for each element of a chunk, in this order.
struct Body {
  std::vector<Crossing> fetches;  // element values that earlier kernels left
  // Element and column values, operands first. This includes loads, and column values that were stored or
  // reduced.
  std::vector<ValueId> code;
  std::vector<ValueId> reductions;  // Op::reduce_*, whose operand is combined into its lane
  std::vector<StoreAction> stores;  // after all loads of the element
  std::vector<Crossing> keeps;      // element values that go to scratch
  bool empty() const { return reductions.empty() && stores.empty() && keeps.empty(); }
  friend bool operator==(const Body&, const Body&) = default;
};

// The values outside of bodies that a stage needs, operands first, one list per granularity. The lists
// include the sources: constants, arguments, states (from before the step), and earlier reductions, which
// stand for their folded results. Per-step code runs once per stage, per-group and per-tensor code once per
// tensor, and per-row code once per row. Per-column values are only here for rollups and the finish; in a
// phase they are element code. A value of a bound type is f32 here, and is converted to the tensor's
// storage type when it is stored.
using UniformCode = Levels<ValueId>;

// Reductions of per-group, per-tensor or finer values, made between two phases by one thread block or the
// calling thread. It first computes the operands for all members of `from`, absent tensors included, with
// `uniform`, and then folds.
struct Rollup {
  Granularity from = per::tensor;
  UniformCode uniform;
  std::vector<ValueId> reductions;
  friend bool operator==(const Rollup&, const Rollup&) = default;
};

struct Phase {
  std::string name;
  UniformCode uniform;
  // If set, a bool coarser than elements. If it is true, `body` runs, and otherwise `otherwise`, which
  // holds the work that does not depend on it and may be empty. Without a guard, `body` runs.
  ValueId guard = kNoValue;
  Body body;
  Body otherwise;
  // They run in this order after the phase's own reductions are folded, whose results they may need.
  std::vector<Rollup> rollups;
  bool is_empty() const { return body.empty() && otherwise.empty(); }
  bool folds() const { return !body.reductions.empty() || !rollups.empty(); }
  friend bool operator==(const Phase&, const Phase&) = default;
};

// Consecutive phases in one launch, with a grid barrier between each two. The last kernel also finishes. In
// the unfused form it may have no phase and only finish.
struct Kernel {
  std::string name;  // an identifier that no other kernel has
  int32_t first_phase = 0;
  int32_t phase_count = 0;
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

// The last block to finish writes these after the last kernel, when nobody reads a state any more.
struct Finish {
  UniformCode uniform;
  std::vector<ValueId> writes;  // Op::write; for absent tensors, per-tensor states stay unchanged
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
  // Every Op::reduce_*; the index is that of its slots and results.
  std::vector<ValueId> reductions;
  std::vector<Type> scratch;  // element type of each scratch array, which may be bound

  // Returns the concrete dtype of `type` for a tensor of signature `s`.
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

// `program` must be verified and optimized. Throws Error{compile} if a signature does not fit it.
Schedule make_schedule(const Program& program, const ScheduleOptions& options);

// Checks the internal consistency: a stage only uses available values, each store happens once and not
// before the last load of its buffer, …. Throws std::logic_error, because a violation is a bug of ours.
void verify_schedule(const Schedule& schedule);

// Prints the whole schedule (`--emit=schedule`).
std::string print(const Schedule& schedule);

}  // namespace stepfuse
