// CUDA text of what stands behind a phase: slots to results, by the last block or, of tensors, by all
// of a grid, and reductions of group and tensor values. Knows the plan.
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

std::string members_begin(Domain lines) {
  return fmt::format("ctx.step.parts[{}].begin",
                     lines == Domain::row ? abi::kRowsOfTensors : abi::kColumnsOfTensors);
}

std::string slot_count(Domain from) {
  switch (from) {
    case Domain::element:
      return "ctx.step.chunk_count";
    case Domain::tensor:
      return "ctx.step.tensor_count";
    case Domain::group:
      return "ctx.step.group_count";
    case Domain::row:
    case Domain::column:
      return members_begin(from) + "[ctx.step.tensor_count]";
    case Domain::step:
      break;
  }
  internal_error("a step value is not reduced");
}

constexpr std::string_view kAlone = "0, 1";  // the last block
constexpr std::string_view kAllBlocks = "blockIdx.x, gridDim.x";

void emit_fold(Emission& e, int32_t number, std::string_view blocks = kAlone) {
  const plan::Reduction& r = e.plan.reduction(number);
  bool any = r.op == Op::reduce_any;
  std::string slots = array_of(e, "slots", number);
  std::string results = array_of(e, "results", number);
  std::string call;
  if (r.to == Domain::column) {
    call = fmt::format("fold_strips<{}>(ctx.step, {}, {}, {});", any ? "Any" : combiner(r.op),
                       slots, results, blocks);
  } else if (r.to != Domain::step) {
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

// What is evaluated for a member of `from`, its number standing in `index`.
void emit_operands(Emission& e, const plan::Rollup& rollup, std::string_view index) {
  if (!rollup.uniform.group.empty() && rollup.from > Domain::group) {
    e.out.line("const u32 group = tensor.group;");
  }
  emit_uniform_lines(e, rollup.uniform.group);
  emit_uniform_lines(e, rollup.uniform.tensor);
  bool lines = rollup.from > Domain::tensor;
  if (lines) open_members(e, rollup.from);
  emit_uniform_lines(e, rollup.from == Domain::row ? rollup.uniform.row : rollup.uniform.column);
  for (const plan::Combine& c : rollup.reductions) {
    e.out.line(
        fmt::format("{}[{}] = {};", array_of(e, "slots", c.reduction), index, e.name(c.operand)),
        e.comment(e.plan.reduction(c.reduction).value));
  }
  if (lines) e.out.close();
}

void emit_rollup(Emission& e, const plan::Rollup& rollup) {
  bool lines = rollup.from > Domain::tensor;
  bool tensors = rollup.from >= Domain::tensor;
  std::string_view index = tensors ? "tensor_index" : "group";
  e.out.open("", fmt::format("roll up {} values", info(rollup.from).name));
  e.out.line("__syncthreads();", "results stand");
  emit_uniform_lines(e, rollup.uniform.step);
  e.out.pragma("#pragma unroll 1");
  Domain walked = std::min(rollup.from, Domain::tensor);
  e.out.open(
      lines ? "for (u32 tensor_index = 0; tensor_index < ctx.step.tensor_count; ++tensor_index)"
            : fmt::format("for (u32 {0} = threadIdx.x; {0} < {1}; {0} += kThreads)", index,
                          slot_count(walked)));
  if (tensors) e.out.line("const abi::Tensor& tensor = ctx.step.tensors[tensor_index];");
  emit_operands(e, rollup, lines ? info(rollup.from).name : index);
  e.out.close();
  e.out.line("__syncthreads();");
  for (const plan::Combine& c : rollup.reductions) emit_fold(e, c.reduction);
  e.out.close();
}

}  // namespace

void open_members(Emission& e, Domain domain) {
  e.out.line(fmt::format("const u32* const {}s = {} + tensor_index;", info(domain).name,
                         members_begin(domain)));
  e.out.pragma("#pragma unroll 1");
  e.out.open(fmt::format("for (u32 {0} = {0}s[0] + threadIdx.x; {0} < {0}s[1]; {0} += kThreads)",
                         info(domain).name));
}

bool folds_in_lanes(const KernelPlan& plan, int32_t phase) {
  auto needs_lanes = [&](int32_t number) {
    const plan::Reduction& r = plan.reduction(number);
    return r.op != Op::reduce_any || r.to != Domain::step;
  };
  const plan::Phase& p = plan.phase(phase);
  bool found = std::any_of(p.reductions.begin(), p.reductions.end(), needs_lanes);
  for (const plan::Rollup& rollup : p.rollups) {
    for (const plan::Combine& c : rollup.reductions) found |= needs_lanes(c.reduction);
  }
  return found;
}

void emit_shared_folds(Emission& e, int32_t phase) {
  for (int32_t r : e.plan.phase(phase).reductions) {
    if (e.plan.reduction(r).to >= Domain::tensor) emit_fold(e, r, kAllBlocks);
  }
  for (int32_t r : e.plan.phase(phase).columns) emit_fold(e, r, kAllBlocks);
}

void emit_folds(Emission& e, int32_t phase, LastBlock last) {
  const plan::Phase& p = e.plan.phase(phase);
  bool may_keep = last == LastBlock::of_split && !p.rollups.empty();
  if (may_keep) e.out.open("if ((ctx.flags & abi::kKeepResults) == 0)");
  for (int32_t r : p.reductions) {
    bool done = last == LastBlock::of_several && e.plan.reduction(r).to >= Domain::tensor;
    if (!done) emit_fold(e, r);
  }
  if (last != LastBlock::of_several) {
    for (int32_t r : p.columns) emit_fold(e, r);
  }
  if (may_keep) e.out.close();
  for (const plan::Rollup& rollup : p.rollups) emit_rollup(e, rollup);
}

}  // namespace stepfuse::cuda
