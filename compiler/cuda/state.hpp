// Declarations that the parts of the CUDA emitter share while one text is written. Knows the plan.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/cuda/options.hpp"
#include "compiler/cuda/text.hpp"
#include "compiler/plan/plan.hpp"
#include "compiler/text.hpp"

namespace stepfuse::cuda {

using plan::Id;
using plan::kNone;

struct Emission {
  const KernelPlan& plan;
  const CudaOptions& options;
  Text out;

  const std::string& name(Id v) const { return plan[v].name; }
  const std::string& comment(Id v) const { return plan[v].text; }
  bool is_constant(Id v) const { return plan[v].is_constant; }
  std::string array_name(const plan::ArrayUse& use) const { return plan.array(use).name; }
};

// Sorted in the order of the step.
using ValueSet = std::set<Id>;

// ---- uniform.cpp: code that is not per element

// Values of a phase's uniform code that other threads need, so they go through shared memory.
struct SharedValues {
  ValueSet step;   // computed by thread 0
  ValueSet chunk;  // group and tensor values, computed by the chunk's first thread
};
SharedValues shared_values(const plan::Uniform& code, const ValueSet& used);

// Writes "const float s_inv = …;  // %inv = rcp %scale : f32" for each value; operands are locals.
void emit_uniform_lines(Emission& e, const std::vector<plan::Inst>& code);
// Writes the code of the current tensor and of its group.
void emit_tensor_lines(Emission& e, const plan::Uniform& code);

// Writes struct NAME { float s_inv; … };, followed by an even number of other fields of 32 bits.
void emit_struct(Emission& e, const std::string& name, const ValueSet& values,
                 std::string_view others = "");

// Writes "const float s_inv = FROM.s_inv;" for each value, or copies in the other direction.
void emit_copies_from(Emission& e, const std::string& from, const ValueSet& values);
void emit_copies_to(Emission& e, const std::string& to, const ValueSet& values);

// ---- chunk_values.cpp

// Values of a phase's group, tensor and row code that the threads on a chunk share. Section 0 of shared
// memory belongs to the block, and one more to each warp for its small chunks.
class ChunkValues {
 public:
  // `used` are the values that bodies use, without per-step values. `code` must outlive this object.
  ChunkValues(const plan::Uniform& code, ValueSet used);
  bool empty() const { return used_.empty(); }
  const ValueSet& used() const { return used_; }

  void emit_struct(Emission& e, const std::string& name) const;
  void emit_sections(Emission& e, const std::string& name) const;
  // The chunk's first thread fills its section.
  void emit(Emission& e, const std::string& name) const;

 private:
  const plan::Uniform& code_;
  ValueSet used_, fields_;
  bool keeps_ = false;  // some value is computed per tensor or group, and may be the last tensor's
  std::vector<plan::Inst> reads_, rest_;  // parts of a tensor's code
  ValueSet for_rows_, kept_;              // values of groups and tensors
};

// ---- arrays.cpp

// Returns the address of a chunk's first value in an array.
std::string array_base(const Emission& e, const plan::ArrayUse& use);
// Returns the step's line that loads the array in a body; "" if there is none.
std::string load_comment(const Emission& e, const plan::Body& body, const plan::ArrayUse& use);
// Whether the alignment of tiles is tested for this array separately: per-column values start at the same
// position in every row, while weights with an odd number of columns do not.
bool is_aligned_alone(const Emission& e, const plan::ArrayUse& use);
// The condition before the store of a value that a block shares.
std::string store_condition(const Emission& e, const plan::ArrayUse& use, const plan::Store& s);

// ---- fast_path.cpp

// Element code for tiles inside of the chunk, if that is shorter. In a phase that only reads, most
// instructions of an element test whether it belongs to the chunk.
struct FastPath {
  bool exists = false;
  ValueSet values;  // values that it computes
  // "Is any of them not finite" is tested once, on the largest magnitude: maps the operand of such a
  // reduction to the value that is tested.
  std::map<Id, Id> finite_checks;
};
FastPath fast_path_of(const Emission& e, const plan::Body& body);
// Whether a per-element predicate guards the store.
bool is_masked(const KernelPlan& plan, const plan::Store& s);
// Returns the f32 value that a store rounds to 16 bits, which machines do in pairs; kNone for other stores.
Id rounded_in_pairs(const plan::Body& body, const plan::Store& s);
// How an f32 is divided. If its neighbours have the same divisor, two FMAs with the reciprocal suffice,
// except for numbers that are too far from 1. Integers and constants are never that far.
enum class Quotient : uint8_t { plain, may_be_far, near };
Quotient quotient_of(const KernelPlan& plan, const plan::Body& body, const plan::Inst& inst);
// Whether a pass divides something that may be far, and all of it may be done twice.
bool divides_by_shared(const KernelPlan& plan, const plan::Body& body, const plan::Pass& pass);

// ---- tile_shape.cpp

inline constexpr int kThreadLanes = 8;  // lanes of a reduction
// A tile has the elements that one access of the option's width covers in the widest array (128 bits for
// 16-bit types, because a thread has eight lanes). There are as many tiles as put enough bytes in flight.
// With blocks, a tile is eight elements of one block.
struct TileShape {
  int tile = 4;
  int tiles = 1;
  const plan::ArrayUse* leader = nullptr;  // its alignment decides: it has most traffic
};
TileShape tile_shape_of(const Emission& e, const plan::Body& body, bool fast_path);

// ---- body.cpp: element code

// Writes the element loop over one chunk. Reductions go to arrays acc_NAME, which the caller declares.
// `prefetches`: the loop also asks for the elements that lie `ahead` elements behind its own, a variable that the
// caller declares.
void emit_bodies(Emission& e, const plan::Bodies& bodies, bool prefetches);

// ---- phase.cpp

std::string reduction_type(const plan::Reduction& reduction);
std::string identity_of(const plan::Reduction& reduction);
// `kept` are the step values that code behind the phase uses too.
void emit_phase_structs(Emission& e, int32_t phase, const ValueSet& kept);
void emit_phase(Emission& e, int32_t phase, const ValueSet& kept);
// Returns the shared variable of a phase's step values.
std::string step_variable(int32_t phase);

// ---- fold.cpp

// Work behind a phase. `may_keep`: a kernel of the `split` form, which looks for kKeepResults.
void emit_work(Emission& e, const plan::Phase& phase, const plan::Work& work, bool may_keep);
// The rows, or columns, of all tensors, with the number of their tensor; by all blocks.
void open_members(Emission& e, Granularity at);
// Whether a phase's folds need the shared lanes.
bool folds_in_lanes(const KernelPlan& plan, int32_t phase);

// ---- finish.cpp

// Returns step values that the finish uses and `phase`, of the same kernel, computes anyway (-1: none).
ValueSet inherited_values(Emission& e, int32_t phase);
void emit_finish_structs(Emission& e, int32_t phase);
// Writes per-row and per-column states by all blocks, if there are any. It comes before emit_finish and in
// a scope around it.
void emit_finish_of_lines(Emission& e, int32_t phase);
// The last block runs it.
void emit_finish(Emission& e, int32_t phase);

}  // namespace stepfuse::cuda
