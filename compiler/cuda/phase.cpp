// CUDA text of one phase: uniform code, the loop over chunks, lanes to slots, slots to results.
// Knows the schedule.
#include <fmt/format.h>

#include "compiler/cuda/ops.hpp"
#include "compiler/cuda/state.hpp"

namespace stepfuse::cuda {
namespace {

class PhaseEmitter {
 public:
  PhaseEmitter(Emission& e, int32_t index, const ValueSet& kept)
      : e_(e),
        phase_(e.s.phases[static_cast<size_t>(index)]),
        variable_(step_variable(index)),
        step_struct_(fmt::format("Step{}", index)),
        chunk_struct_(fmt::format("Chunk{}", index)) {
    ValueSet used;
    collect_uniform_operands(e_, phase_.body, &used);
    collect_uniform_operands(e_, phase_.otherwise, &used);
    if (phase_.guard != kNoValue && !e_.is_constant(phase_.guard)) used.insert(phase_.guard);
    SharedValues shared = shared_values(e_, phase_.uniform, used);
    local_ = without_constants(e_, shared.step);
    shared.step.insert(kept.begin(), kept.end());
    step_ = without_constants(e_, shared.step);
    chunk_ = without_constants(e_, shared.chunk);
  }

  void emit_structs() {
    if (!step_.empty()) emit_struct(e_, step_struct_, step_);
    if (!chunk_.empty()) emit_struct(e_, chunk_struct_, chunk_);
  }

  void emit() {
    if (!step_.empty()) e_.out.line(fmt::format("__shared__ {} {};", step_struct_, variable_));
    e_.out.open("", "phase " + phase_.name);
    emit_step();
    if (!phase_.body.empty() || !phase_.otherwise.empty()) emit_loop();
    e_.out.close();
  }

 private:
  void emit_step() {
    if (step_.empty()) return;
    e_.out.open("if (threadIdx.x == 0)");
    emit_uniform_lines(e_, phase_.uniform.step);
    emit_copies_to(e_, variable_, step_);
    e_.out.close();
    e_.out.line("__syncthreads();");
    emit_copies_from(e_, variable_, local_);
  }

  // Chunks that a step-domain guard rules out are not even looked at.
  bool guard_skips_loop() const {
    return phase_.guard != kNoValue && e_.p[phase_.guard].type.domain == Domain::step &&
           phase_.otherwise.empty() && phase_.body.reductions.empty();
  }
  // Backwards, what the phase before touched last comes first and is still in the L2 cache.
  bool reversed() const {
    return e_.options.reverse && &phase_ != &e_.s.phases[0] && phase_.body.reductions.empty();
  }

  void emit_loop() {
    std::string units = "unit_count(ctx)";
    if (guard_skips_loop()) units = fmt::format("{} ? {} : 0", e_.names[phase_.guard], units);
    e_.out.line(fmt::format("const u32 units = {};", units));
    if (!chunk_.empty()) {
      e_.out.line(fmt::format("__shared__ {} sections[1 + kWarps];", chunk_struct_));
      e_.out.line("u32 seen = kNone;", "the tensor whose values stand in section 0");
    }
    e_.out.pragma("#pragma unroll 1");
    e_.out.open("for (u32 turn = blockIdx.x; turn < units; turn += gridDim.x)");
    e_.out.line(reversed() ? "const u32 unit = units - 1 - turn;" : "const u32 unit = turn;");
    e_.out.line("const Work work = work_of(ctx, unit);");
    e_.out.line("const abi::Chunk* const entry = chunk_of(ctx, unit);");
    e_.out.line("if (entry == nullptr) continue;");
    e_.out.line("const abi::Chunk chunk = *entry;");
    e_.out.line("const u32 tensor_index = chunk.tensor;");
    e_.out.line("const abi::Tensor& tensor = ctx.step.tensors[tensor_index];");
    emit_absent();
    emit_chunk_values();
    emit_bodies();
    e_.out.close();
  }

  void emit_absent() {
    e_.out.open("if ((tensor.flags & abi::kPresent) == 0)", "neither loaded nor stored");
    emit_identities(phase_.body.reductions);
    e_.out.line("continue;");
    e_.out.close();
  }

  void emit_identities(const std::vector<ValueId>& reductions) {
    if (reductions.empty()) return;
    e_.out.open("if (work.worker == 0)");
    for (ValueId r : reductions) {
      e_.out.line(fmt::format("{} = {};", slot(r), identity(r)));
    }
    e_.out.close();
  }
  std::string slot(ValueId r) const {
    return fmt::format("global<{}>(ctx.step.slots, {})[chunk.slot]", reduction_type(e_, r),
                       e_.s.reduction_index(r));
  }
  std::string identity(ValueId r) const {
    if (e_.p[r].op == Op::reduce_any) return "false";
    return fmt::format("{}::identity<{}>()", combiner(e_.p[r].op), reduction_type(e_, r));
  }

  void emit_chunk_values() {
    if (chunk_.empty()) return;
    e_.out.open("if (work.packed || tensor_index != seen)");
    e_.out.line("synchronize(work.packed);", "nobody reads the last tensor's values any more");
    e_.out.open("if (work.worker == 0)");
    bool grouped = !phase_.uniform.group.empty();
    if (grouped) e_.out.line("const u32 group = tensor.group;");
    emit_uniform_lines(e_, phase_.uniform.group);
    emit_uniform_lines(e_, phase_.uniform.tensor);
    emit_copies_to(e_, "sections[work.section]", chunk_);
    e_.out.close();
    e_.out.line("synchronize(work.packed);");
    e_.out.line("seen = work.packed ? kNone : tensor_index;");
    e_.out.close();
    emit_copies_from(e_, "sections[work.section]", chunk_);
  }

  void emit_bodies() {
    bool other = !phase_.otherwise.empty();
    bool guarded = phase_.guard != kNoValue && !guard_skips_loop();
    e_.out.line("const i32 length = i32(chunk.length);");
    emit_accumulators();
    if (guarded) e_.out.open(fmt::format("if ({})", e_.names[phase_.guard]));
    if (!phase_.body.empty()) emit_body(e_, phase_.body);
    if (guarded && other) {
      e_.out.close("} else {");
      e_.out.reopen();
      emit_body(e_, phase_.otherwise);
    }
    if (guarded) e_.out.close();
    emit_slots();
  }

  void emit_accumulators() {
    const auto& reductions = phase_.body.reductions;
    if (has_lanes()) {
      e_.out.line(
          "const u32 first_lane = work.packed ? 0 : u32(tensor.offset + chunk.begin) % 2048;");
      e_.out.line("LanePlace place = {0, work.workers * 4};");
    }
    for (ValueId r : reductions) {
      if (e_.p[r].op == Op::reduce_any) {
        e_.out.line(fmt::format("bool acc_{} = false;", e_.names[r]));
        continue;
      }
      e_.out.line(fmt::format("{} acc_{}[8];", reduction_type(e_, r), e_.names[r]));
      e_.out.pragma("#pragma unroll");
      e_.out.line(
          fmt::format("for (i32 e = 0; e < 8; ++e) acc_{}[e] = {};", e_.names[r], identity(r)));
    }
  }
  bool has_lanes() const {
    const auto& reductions = phase_.body.reductions;
    return std::any_of(reductions.begin(), reductions.end(),
                       [&](ValueId r) { return e_.p[r].op != Op::reduce_any; });
  }

  void emit_slots() {
    for (ValueId r : phase_.body.reductions) {
      std::string call =
          e_.p[r].op == Op::reduce_any
              ? fmt::format("any_chunk(acc_{}, work.packed, &{});", e_.names[r], slot(r))
              : fmt::format("fold_chunk<{}>(acc_{}, place, work.packed, lanes, &{});",
                            combiner(e_.p[r].op), e_.names[r], slot(r));
      e_.out.line(call, e_.comment(r));
    }
  }

  Emission& e_;
  const Phase& phase_;
  std::string variable_, step_struct_, chunk_struct_;
  std::vector<ValueId> step_;   // shared by thread 0
  std::vector<ValueId> local_;  // those that this phase reads
  std::vector<ValueId> chunk_;
};

}  // namespace

std::string reduction_type(const Emission& e, ValueId reduction) {
  return std::string(c_type(e.p[reduction].type.dtype));
}

std::string step_variable(int32_t phase) { return fmt::format("step_{}", phase); }

void emit_phase_structs(Emission& e, int32_t phase, const ValueSet& kept) {
  PhaseEmitter(e, phase, kept).emit_structs();
}

void emit_phase(Emission& e, int32_t phase, const ValueSet& kept) {
  PhaseEmitter(e, phase, kept).emit();
}

}  // namespace stepfuse::cuda
