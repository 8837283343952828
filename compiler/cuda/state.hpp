// What the parts of the CUDA emitter share while one text is written. Knows the plan.
#pragma once

#include <map>
#include <set>
#include <string>
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

// In the order of the step.
using ValueSet = std::set<Id>;

// ---- uniform.cpp: code outside the element domain

// What of a phase's uniform code other threads need, and so goes through shared memory.
struct SharedValues {
  ValueSet step;   // computed by thread 0
  ValueSet chunk;  // group and tensor values, computed by the chunk's first thread
};
SharedValues shared_values(const plan::Uniform& code, const ValueSet& used);

// "const float s_inv = …;  // %inv = rcp %scale : f32" for each value; operands are locals.
void emit_uniform_lines(Emission& e, const std::vector<plan::Inst>& code);
// The rows, or columns, of the tensor at hand, by all threads of the block.
void open_members(Emission& e, Domain domain);

// struct NAME { float s_inv; … };
void emit_struct(Emission& e, const std::string& name, const ValueSet& values);

// "const float s_inv = FROM.s_inv;" for each value, or the way back.
void emit_copies_from(Emission& e, const std::string& from, const ValueSet& values);
void emit_copies_to(Emission& e, const std::string& to, const ValueSet& values);

// ---- arrays.cpp

// The address of a chunk's first value in an array.
std::string array_base(const Emission& e, const plan::ArrayUse& use);

// ---- short_way.cpp

// Element code for tiles that lie inside of the chunk, where that is shorter: in a phase that only reads,
// most instructions of an element ask whether it is the chunk's.
struct ShortWay {
  bool exists = false;
  ValueSet values;  // that it computes
  // "Is any of them not finite" is asked of the largest magnitude, once: the operand of such a reduction,
  // and which value it says is not finite.
  std::map<Id, Id> finite_checks;
};
ShortWay short_way_of(const Emission& e, const plan::Body& body);
// Whether elements decide on it one by one.
bool is_masked(const KernelPlan& plan, const plan::Store& s);
// The f32 value that a store rounds to 16 bits, which machines do by two; kNone if it does not.
Id rounded_in_pairs(const plan::Body& body, const plan::Store& s);
// Whether an f32 is divided by what its neighbours are divided by as well; and of a section whether that is so of
// something in it and all of it may be done twice.
bool divides_by_shared(const KernelPlan& plan, const plan::Inst& inst);
bool divides_by_shared(const KernelPlan& plan, const plan::Section& section);

// ---- body.cpp: element code

// The element loop over one chunk; reductions go to acc_NAME arrays, which the caller declares.
void emit_bodies(Emission& e, const plan::Bodies& bodies);

// ---- phase.cpp

std::string reduction_type(const plan::Reduction& reduction);
std::string identity_of(const plan::Reduction& reduction);
// `kept`: step values that somebody behind the phase uses too.
void emit_phase_structs(Emission& e, int32_t phase, const ValueSet& kept);
void emit_phase(Emission& e, int32_t phase, const ValueSet& kept);
// The shared variable of a phase's step values.
std::string step_variable(int32_t phase);

// ---- fold.cpp

// By all blocks, behind a grid barrier: folds the slots of reductions to tensors, of which there may be
// many.
void emit_shared_folds(Emission& e, int32_t phase);
enum class LastBlock {
  alone,       // of a kernel of one phase
  of_split,    // the same, in the `split` form, whose kernels look for kKeepResults
  of_several,  // of a kernel whose blocks wait for each other: emit_shared_folds is done
};
// By the whole last block: folds the other slots of the phase's reductions into their results, and
// rolls up behind them.
void emit_folds(Emission& e, int32_t phase, LastBlock last);
// Whether emit_folds needs the shared lanes.
bool folds_in_lanes(const KernelPlan& plan, int32_t phase);

// ---- finish.cpp

// Step values that the finish uses and `phase`, of the same kernel, computes anyway (-1: none).
ValueSet inherited_values(Emission& e, int32_t phase);
void emit_finish_structs(Emission& e, int32_t phase);
void emit_finish(Emission& e, int32_t phase);

}  // namespace stepfuse::cuda
