// CUDA text of one phase: uniform code, the loop over chunks, lanes to slots, slots to results. Knows the
// plan.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "compiler/abi.hpp"
#include "compiler/cuda/ops.hpp"
#include "compiler/cuda/state.hpp"

namespace stepfuse::cuda {
namespace {

// Adds the coarser values that bodies read. Constants are left out, because every scope sees them.
void collect_uniform_operands(const Emission& e, const plan::Bodies& bodies, ValueSet* used) {
  for (const plan::Body& body : bodies) {
    for_each_operand(body, [&](Id v) {
      if (!e.plan.is_element(v) && !e.is_constant(v)) used->insert(v);
    });
  }
}

class PhaseEmitter {
 public:
  PhaseEmitter(Emission& e, int32_t index, const ValueSet& kept)
      : e_(e),
        phase_(e.plan.phase(index)),
        pieces_(e.plan.reductions_in(phase_, per::piece)),
        first_(index == 0),
        variable_(step_variable(index)),
        step_struct_(fmt::format("Step{}", index)),
        chunk_struct_(fmt::format("Chunk{}", index)) {
    ValueSet used;
    collect_uniform_operands(e_, phase_.bodies, &used);
    collect_uniform_operands(e_, phase_.otherwise, &used);
    if (phase_.guard != kNone && !e_.is_constant(phase_.guard)) used.insert(phase_.guard);
    SharedValues shared = shared_values(phase_.uniform, used);
    local_ = shared.step;
    step_ = shared.step;
    step_.insert(kept.begin(), kept.end());
    chunk_.emplace(phase_.uniform, shared.chunk);
  }

  void emit_structs() {
    if (!step_.empty()) emit_struct(e_, step_struct_, step_);
    chunk_->emit_struct(e_, chunk_struct_);
  }

  void emit() {
    if (!step_.empty()) e_.out.line(fmt::format("__shared__ {} {};", step_struct_, variable_));
    e_.out.open("", "phase " + phase_.name);
    emit_step();
    if (phase_.has_work()) emit_loop();
    e_.out.close();
  }

 private:
  void emit_step() {
    if (step_.empty()) return;
    e_.out.open("if (threadIdx.x == 0)");
    emit_uniform_lines(e_, phase_.uniform.of(per::step));
    emit_copies_to(e_, variable_, step_);
    e_.out.close();
    e_.out.line("__syncthreads();");
    emit_copies_from(e_, variable_, local_);
  }

  // In reverse order, the data that the previous phase used last comes first and is still in the L2 cache.
  bool reversed() const { return e_.options.reverse && !first_ && phase_.reductions.empty(); }

  void emit_loop() {
    bool splits = e_.plan.may_split(phase_);
    std::string_view split = splits || e_.plan.may_split_rows(phase_) ? "ctx.split" : "0";
    std::string units = by_parts() ? "ctx.part_count" : fmt::format("unit_count(ctx, {})", split);
    if (phase_.guards == plan::Guard::launch) {
      units = fmt::format("{} ? {} : 0", e_.name(phase_.guard), units);
    }
    e_.out.line(fmt::format("const u32 units = {};", units));
    if (!chunk_->empty()) {
      chunk_->emit_sections(e_, chunk_struct_);
      e_.out.line("u32 seen = kNone;",
                  fmt::format("the {} whose values stand in section {}",
                              by_rows() ? "row" : "tensor", by_parts() ? "1 + warp" : "0"));
    }
    if (has_lanes()) e_.out.line("u32 folds = 0;");
    by_parts() ? open_parts() : open_units(split);
    if (splits) e_.out.line("if (!take_part(chunk, work, unit, ctx.split)) continue;");
    e_.out.line("const u32 tensor_index = chunk.tensor;");
    e_.out.line("const abi::Tensor& tensor = ctx.step.tensors[tensor_index];");
    if (by_strips()) open_strip();
    emit_absent();
    if (by_rows()) {
      e_.out.line(
          fmt::format("const u32 row = ctx.step.parts[{}].begin[tensor_index] + u32(chunk.begin / "
                      "tensor.columns);",
                      abi::kRowsOfTensors));
    }
    emit_chunk_values();
    emit_chunk();
    if (by_strips()) {
      // Other threads may process the same columns of the next row. A fold has waited for them.
      if (e_.plan.combines_rows(phase_) && !has_lanes()) {
        e_.out.line("synchronize(work.packed);");
      }
      e_.out.close();
    }
    e_.out.close();
  }

  void open_units(std::string_view split) {
    e_.out.pragma("#pragma unroll 1");
    e_.out.open("for (u32 turn = blockIdx.x; turn < units; turn += gridDim.x)");
    e_.out.line(reversed() ? "const u32 unit = units - 1 - turn;" : "const u32 unit = turn;");
    e_.out.line(fmt::format("const Work work = work_of(ctx, unit, {});", split));
    e_.out.line(fmt::format("const abi::Chunk* const entry = chunk_of(ctx, unit, {});", split));
    e_.out.line("if (entry == nullptr) continue;");
    bool whole = !by_strips() && !e_.plan.may_split(phase_);
    e_.out.line(fmt::format("{}abi::Chunk chunk = *entry;", whole ? "const " : ""));
  }
  // Assigns parts warp by warp, so that a few parts are spread over all multiprocessors.
  void open_parts() {
    e_.out.line("const u32 warp = threadIdx.x / kWarp;");
    e_.out.line("const Work work = {true, threadIdx.x % kWarp, kWarp, 1 + warp};");
    e_.out.pragma("#pragma unroll 1");
    e_.out.open(
        "for (u32 turn = warp * gridDim.x + blockIdx.x; turn < units; turn += kWarps * gridDim.x)");
    e_.out.line("abi::Chunk chunk = ctx.parts[turn];");
  }

  bool by_strips() const { return e_.plan.rows_in_order > 0; }
  bool by_parts() const { return e_.plan.may_split_columns(phase_); }
  // A worker has all rows of a strip. If there are few workers, each has many rows and prefetches later ones.
  bool prefetches() const { return by_strips() && e_.plan.combines_rows(phase_); }
  // Opens the loop over the rows of a strip.
  void open_strip() {
    e_.out.line("const u64 columns = tensor.columns;");
    e_.out.line("const u32 pieces = u32((columns + kPieceElements - 1) / kPieceElements);");
    std::string rows = fmt::format("{}", e_.plan.rows_in_order);
    if (e_.plan.may_split_rows(phase_)) {
      e_.out.line(fmt::format("const u64 rows = work.packed ? {0} : {0} >> ctx.split;", rows));
      e_.out.line(
          "take_rows(chunk, rows, work.packed ? 0 : unit & ((1 << ctx.split) - 1), columns);");
      rows = "rows";
    }
    e_.out.line("const u64 first_line = chunk.begin / columns, column = chunk.begin % columns;");
    e_.out.line(fmt::format("const u64 last_line = last_in_order(tensor, first_line, {});", rows));
    if (prefetches()) {
      e_.out.line(fmt::format("const u64 rows_ahead = {};",
                              by_parts() ? "kPartRowsAhead" : "rows_ahead_of(columns)"));
    }
    e_.out.pragma("#pragma unroll 1");
    e_.out.open(
        "for (u64 line = first_line; line < last_line; ++line, chunk.begin += columns, chunk.slot "
        "+= pieces)");
    if (prefetches()) {
      e_.out.line("const u64 ahead = last_line - line > rows_ahead ? rows_ahead * columns : 0;");
    }
  }

  void emit_absent() {
    e_.out.open("if ((tensor.flags & abi::kPresent) == 0)", "neither loaded nor stored");
    emit_identities();
    e_.out.line("continue;");
    e_.out.close();
  }

  void emit_identities() {
    if (pieces_.empty()) return;
    e_.out.open("if (work.worker == 0)");
    for (int32_t r : pieces_) {
      e_.out.line(fmt::format("{} = {};", slot(r), identity_of(e_.plan.reduction(r))));
    }
    e_.out.close();
  }
  std::string slot(int32_t r) const {
    return fmt::format("global<{}>(ctx.step.slots, {})[chunk.slot]",
                       reduction_type(e_.plan.reduction(r)), r);
  }

  bool by_rows() const { return phase_.uniform.has(per::row); }
  void emit_chunk_values() {
    if (chunk_->empty()) return;
    std::string_view owner = by_rows() ? "row" : "tensor_index";
    // A block processes several kinds of work in turn, a warp only parts.
    e_.out.open(fmt::format("if ({}{} != seen)", by_parts() ? "" : "work.packed || ", owner));
    // The last tensor's values are no longer read: a fold after their use has waited.
    if (!has_lanes()) {
      e_.out.line("synchronize(work.packed);", "nobody reads the last tensor's values any more");
    }
    e_.out.open("if (work.worker == 0)");
    chunk_->emit(e_, chunk_struct_);
    e_.out.close();
    e_.out.line("synchronize(work.packed);");
    e_.out.line(fmt::format("seen = {}{};", by_parts() ? "" : "work.packed ? kNone : ", owner));
    e_.out.close();
    emit_copies_from(e_, "sections[work.section]", chunk_->used());
  }

  void emit_chunk() {
    bool other = !phase_.otherwise.empty();
    bool guarded = phase_.guards == plan::Guard::chunk;
    e_.out.line("const i32 length = i32(chunk.length);");
    emit_accumulators();
    if (guarded) e_.out.open(fmt::format("if ({})", e_.name(phase_.guard)));
    emit_bodies(e_, phase_.bodies, prefetches());
    if (guarded && other) {
      e_.out.close("} else {");
      e_.out.reopen();
      emit_bodies(e_, phase_.otherwise, prefetches());
    }
    if (guarded) e_.out.close();
    emit_slots();
  }

  void emit_accumulators() {
    if (has_lanes()) e_.out.line("LanePlace place = {0, work.workers * 4};");
    for (int32_t number : pieces_) {
      const plan::Reduction& r = e_.plan.reduction(number);
      const std::string& name = e_.name(r.value);
      if (r.op == Op::reduce_any) {
        e_.out.line(fmt::format("bool acc_{} = false;", name));
        continue;
      }
      e_.out.line(fmt::format("{} acc_{}[8];", reduction_type(r), name));
      e_.out.pragma("#pragma unroll");
      e_.out.line(fmt::format("for (i32 e = 0; e < 8; ++e) acc_{}[e] = {};", name, identity_of(r)));
    }
  }
  bool has_lanes() const {
    return std::any_of(pieces_.begin(), pieces_.end(),
                       [&](int32_t r) { return e_.plan.reduction(r).op != Op::reduce_any; });
  }

  void emit_slots() {
    for (int32_t number : pieces_) {
      const plan::Reduction& r = e_.plan.reduction(number);
      const std::string& name = e_.name(r.value);
      std::string call =
          r.op == Op::reduce_any
              ? fmt::format("any_chunk(acc_{}, work.packed, &{});", name, slot(number))
              : fmt::format("fold_chunk<{}>(acc_{}, place, work.packed, lanes, folds, &{});",
                            combiner(r.op), name, slot(number));
      e_.out.line(call, e_.comment(r.value));
    }
  }

  Emission& e_;
  const plan::Phase& phase_;
  std::vector<int32_t> pieces_;  // its reductions per piece
  bool first_;
  std::string variable_, step_struct_, chunk_struct_;
  ValueSet step_;   // shared by thread 0
  ValueSet local_;  // step values that this phase reads
  std::optional<ChunkValues> chunk_;
};

}  // namespace

std::string reduction_type(const plan::Reduction& reduction) {
  return std::string(c_type(reduction.dtype));
}

std::string identity_of(const plan::Reduction& reduction) {
  if (reduction.op == Op::reduce_any) return "false";
  return fmt::format("{}::identity<{}>()", combiner(reduction.op), reduction_type(reduction));
}

std::string step_variable(int32_t phase) { return fmt::format("step_{}", phase); }

void emit_phase_structs(Emission& e, int32_t phase, const ValueSet& kept) {
  PhaseEmitter(e, phase, kept).emit_structs();
}

void emit_phase(Emission& e, int32_t phase, const ValueSet& kept) {
  PhaseEmitter(e, phase, kept).emit();
}

}  // namespace stepfuse::cuda
