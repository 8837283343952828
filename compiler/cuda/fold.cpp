// CUDA text behind a phase: folds slots to results, and reduces values coarser than elements. The last
// block does this, or all blocks of the grid if there may be many values. Knows the plan.
#include <algorithm>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "compiler/abi.hpp"
#include "compiler/cuda/ops.hpp"
#include "compiler/cuda/state.hpp"

namespace stepfuse::cuda {
namespace {

std::string array_of(const Emission& e, std::string_view table, int32_t r) {
  return fmt::format("global<{}>(ctx.step.{}, {})", reduction_type(e.plan.reduction(r)), table, r);
}

// Returns the first member of each tensor.
std::string members_begin(Granularity g) {
  return fmt::format("ctx.step.parts[{}].begin",
                     abi::partition_index(number_of(g), number_of(per::tensor)));
}

std::string slot_count(Granularity from) {
  if (is_tile(from)) return "ctx.step.chunk_count";
  if (splits_tensor(from)) return members_begin(from) + "[ctx.step.tensor_count]";
  return fmt::format("ctx.step.{}_count", info(from).name);
}

void emit_fold(Emission& e, int32_t number, bool by_all) {
  std::string_view blocks = by_all ? "blockIdx.x, gridDim.x" : "0, 1";
  const plan::Reduction& r = e.plan.reduction(number);
  bool any = r.op == Op::reduce_any;
  std::string slots = array_of(e, "slots", number);
  std::string results = array_of(e, "results", number);
  std::string call;
  if (r.partials == per::strip) {
    call = fmt::format("fold_strips<{}>(ctx.step, {}, {}, {}, {});", any ? "Any" : combiner(r.op),
                       e.plan.base_of(per::strip), slots, results, blocks);
  } else if (r.to != per::step) {
    call = fmt::format("fold_parts<{}>(ctx.step.parts[{}], {}, {}, lanes, {});",
                       any ? "Any" : combiner(r.op), r.partition, slots, results, blocks);
  } else if (any) {
    call = fmt::format("any_list({}, nullptr, {}, {});", slots, slot_count(r.from), results);
  } else {
    call = fmt::format("fold_list<{}>({}, nullptr, {}, {}, lanes);", combiner(r.op), slots,
                       slot_count(r.from), results);
  }
  e.out.line(call, e.comment(r.value));
}

// Evaluates the operands for each member of `from`: all blocks share rows and columns, one block does the others.
void emit_operands(Emission& e, const plan::Rollup& rollup) {
  bool lines = splits_tensor(rollup.from);
  bool tensors = rollup.from.scope == Scope::tensor;
  emit_uniform_lines(e, rollup.uniform.of(per::step));
  if (lines) {
    open_members(e, rollup.from);
  } else {
    e.out.pragma("#pragma unroll 1");
    e.out.open(fmt::format("for (u32 {0} = threadIdx.x; {0} < {1}; {0} += kThreads)",
                           tensors ? "tensor_index" : "group", slot_count(rollup.from)));
  }
  if (tensors) e.out.line("const abi::Tensor& tensor = ctx.step.tensors[tensor_index];");
  if (rollup.uniform.has(per::group) && tensors) e.out.line("const u32 group = tensor.group;");
  for (const Level<plan::Inst>& level : rollup.uniform) {
    if (level.at != per::step) emit_uniform_lines(e, level.code);
  }
  std::string_view index = lines ? info(rollup.from).name : tensors ? "tensor_index" : "group";
  for (const plan::Combine& c : rollup.reductions) {
    e.out.line(
        fmt::format("{}[{}] = {};", array_of(e, "slots", c.reduction), index, e.name(c.operand)),
        e.comment(e.plan.reduction(c.reduction).value));
  }
  e.out.close();
}

// Fills the arrays that have another one's values in a different order: all blocks share the tiles.
void emit_arrangements(Emission& e) {
  const KernelPlan& plan = e.plan;
  e.out.open("", "arrange values");
  e.out.line(
      fmt::format("const u64* const bases = ctx.step.bases + u64(ctx.step.tensor_count) * {};",
                  plan.base_of(kArrangedTile)));
  e.out.line("const u64 tiles = tile_count(ctx.step, bases);");
  e.out.pragma("#pragma unroll 1");
  e.out.open("for (u64 number = blockIdx.x; number < tiles; number += gridDim.x)");
  e.out.line("const Tile tile = tile_at(ctx.step, bases, number);");
  e.out.line("if (tile.tensor == kNone) continue;");
  e.out.line(fmt::format("const u64 first = u64(tile.tensor) * {};", plan.buffer_count));
  for (const plan::Arrangement& a : plan.arrangements) {
    int bits = a.order.transposed ? a.bits_of_elements() : 0;
    std::string_view type = bits != 0               ? "u32"
                            : size_of(a.dtype) == 1 ? "u8"
                            : size_of(a.dtype) == 2 ? "u16"
                                                    : "u32";
    auto array = [&](int32_t buffer) {
      return fmt::format("global<{}>(ctx.step.pointers, first + {})", type, buffer);
    };
    std::string function = bits != 0
                               ? fmt::format("transpose_tile<{}>", bits)
                               : fmt::format("arrange_tile<{}, {}, {}, {}>", a.at.rows,
                                             a.at.columns, a.order.transposed, a.order.swizzled);
    e.out.line(fmt::format("{}(tile, {}, {});", function, array(a.from), array(a.to)), a.text);
  }
  e.out.close();
  e.out.close();
}

}  // namespace

void open_members(Emission& e, Granularity at) {
  std::string_view name = info(at).name;
  e.out.line(fmt::format("const u32* const {}s = {};", name, members_begin(at)));
  e.out.line(fmt::format("const u32 {0}_count = {0}s[ctx.step.tensor_count];", name));
  e.out.pragma("#pragma unroll 1");
  e.out.open(
      fmt::format("for (u32 {0} = blockIdx.x * kThreads + threadIdx.x; {0} < {0}_count; "
                  "{0} += gridDim.x * kThreads)",
                  name));
  e.out.line(
      fmt::format("const u32 tensor_index = owner_of({0}s, ctx.step.tensor_count, {0});", name));
}

bool folds_in_lanes(const KernelPlan& plan, int32_t phase) {
  auto needs_lanes = [&](int32_t number) {
    const plan::Reduction& r = plan.reduction(number);
    return r.op != Op::reduce_any || r.to != per::step;
  };
  const plan::Phase& p = plan.phase(phase);
  std::vector<int32_t> pieces = plan.reductions_in(p, per::piece);
  bool found = std::any_of(pieces.begin(), pieces.end(), needs_lanes);
  for (const plan::Rollup& rollup : p.rollups) {
    for (const plan::Combine& c : rollup.reductions) found |= needs_lanes(c.reduction);
  }
  return found;
}

void emit_work(Emission& e, const plan::Phase& phase, const plan::Work& work, bool may_keep) {
  if (work.arranges) return emit_arrangements(e);
  if (work.rollup != kNone) {
    const plan::Rollup& rollup = phase.rollups[static_cast<size_t>(work.rollup)];
    e.out.open("", fmt::format("roll up {} values", info(rollup.from).name));
    if (!work.by_all) e.out.line("__syncthreads();", "results stand");
    emit_operands(e, rollup);
    if (!work.by_all) e.out.line("__syncthreads();");
    for (int32_t r : work.folds) emit_fold(e, r, work.by_all);
    e.out.close();
    return;
  }
  // Results that are rolled up may have been replaced, and are kept then.
  bool keeps = may_keep && !phase.rollups.empty() && is_tile(e.plan.reduction(work.folds[0]).from);
  if (keeps) e.out.open("if ((ctx.flags & abi::kKeepResults) == 0)");
  for (int32_t r : work.folds) emit_fold(e, r, work.by_all);
  if (keeps) e.out.close();
}

}  // namespace stepfuse::cuda
