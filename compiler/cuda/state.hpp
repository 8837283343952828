// What the parts of the CUDA emitter share while one text is written. Knows the schedule.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <stepfuse/printer.hpp>

#include "compiler/cuda/text.hpp"
#include "compiler/emit.hpp"
#include "compiler/schedule/schedule.hpp"

namespace stepfuse::cuda {

struct Emission {
  Emission(const Schedule& schedule, const CudaOptions& cuda_options)
      : s(schedule), p(schedule.program), options(cuda_options), names(schedule.program) {}

  const Schedule& s;
  const Program& p;
  const CudaOptions& options;
  Names names;
  Text out;

  std::string comment(ValueId v) const { return print_inst(p, v); }
  bool is_constant(ValueId v) const { return p[v].op == Op::constant; }
  bool is_element(ValueId v) const { return p[v].type.domain == Domain::element; }
};

using ValueSet = std::set<ValueId>;

// `v` in the order of the program, without constants, which every scope sees.
std::vector<ValueId> without_constants(const Emission& e, const ValueSet& values);

// ---- emit_cuda_uniform.cpp: code outside the element domain

// What of a phase's uniform code other threads need, and so goes through shared memory.
struct SharedValues {
  ValueSet step;   // computed by thread 0
  ValueSet chunk;  // group and tensor values, computed by the chunk's first thread
};
SharedValues shared_values(const Emission& e, const UniformCode& code, const ValueSet& used);

// "const float s_inv = …;  // %inv = rcp %scale : f32" for each value; operands are locals.
void emit_uniform_lines(Emission& e, const std::vector<ValueId>& values);

// struct NAME { float s_inv; … };
void emit_struct(Emission& e, const std::string& name, const std::vector<ValueId>& values);

// "const float s_inv = FROM.s_inv;" for each value, or the way back.
void emit_copies_from(Emission& e, const std::string& from, const std::vector<ValueId>& values);
void emit_copies_to(Emission& e, const std::string& to, const std::vector<ValueId>& values);

// ---- emit_cuda_body.cpp: element code

// Values of coarser domains that a body reads.
void collect_uniform_operands(const Emission& e, const Body& body, ValueSet* used);

// The element loop over one chunk; reductions go to acc_NAME arrays, which the caller declares.
void emit_body(Emission& e, const Body& body);

// ---- emit_cuda_phase.cpp

std::string reduction_type(const Emission& e, ValueId reduction);
// `kept`: step values that somebody behind the phase uses too.
void emit_phase_structs(Emission& e, int32_t phase, const ValueSet& kept);
void emit_phase(Emission& e, int32_t phase, const ValueSet& kept);
// The shared variable of a phase's step values.
std::string step_variable(int32_t phase);
// By the whole last block: folds the slots of the phase's reductions into their results (unless
// kKeepResults is set, which only `split` kernels look for), and rolls up behind them.
void emit_folds(Emission& e, int32_t phase, bool split);
// Whether emit_folds needs the shared lanes.
bool folds_in_lanes(const Emission& e, int32_t phase);

// ---- emit_cuda_finish.cpp

// Step values that the finish uses and `phase`, of the same kernel, computes anyway (-1: none).
ValueSet inherited_values(Emission& e, int32_t phase);
void emit_finish_structs(Emission& e, int32_t phase);
void emit_finish(Emission& e, int32_t phase);

}  // namespace stepfuse::cuda
