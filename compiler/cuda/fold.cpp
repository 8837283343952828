// CUDA text of what the last block does behind a phase: slots to results, and reductions of group
// and tensor values. Knows the schedule.
#include <fmt/format.h>

#include "compiler/abi.hpp"
#include "compiler/cuda/ops.hpp"
#include "compiler/cuda/state.hpp"

namespace stepfuse::cuda {
namespace {

std::string array_of(const Emission& e, std::string_view table, ValueId r) {
  return fmt::format("global<{}>(ctx.step.{}, {})", reduction_type(e, r), table,
                     e.s.reduction_index(r));
}

std::string_view slot_count(Domain from) {
  switch (from) {
    case Domain::element:
      return "ctx.step.chunk_count";
    case Domain::tensor:
      return "ctx.step.tensor_count";
    case Domain::group:
      return "ctx.step.group_count";
    case Domain::step:
      break;
  }
  internal_error("a step value is not reduced");
}

bool needs_lanes(const Emission& e, ValueId r) {
  return e.p[r].op != Op::reduce_any || e.p[r].type.domain != Domain::step;
}

void emit_fold(Emission& e, ValueId r) {
  const Inst& inst = e.p[r];
  Domain from = e.p[inst.operands[0]].type.domain;
  Domain to = inst.type.domain;
  bool any = inst.op == Op::reduce_any;
  std::string slots = array_of(e, "slots", r);
  std::string results = array_of(e, "results", r);
  std::string call;
  if (to != Domain::step) {
    auto parts = abi::partition_index(static_cast<uint32_t>(from), static_cast<uint32_t>(to));
    call = fmt::format("fold_parts<{}>(ctx.step.parts[{}], {}, {}, lanes);",
                       any ? "Any" : combiner(inst.op), parts, slots, results);
  } else if (any) {
    call = fmt::format("any_list({}, nullptr, {}, {});", slots, slot_count(from), results);
  } else {
    call = fmt::format("fold_list<{}>({}, nullptr, {}, {}, lanes);", combiner(inst.op), slots,
                       slot_count(from), results);
  }
  e.out.line(call, e.comment(r));
}

// What is evaluated for a member of `from`, its number standing in `index`.
void emit_operands(Emission& e, const Rollup& rollup, std::string_view index) {
  if (!rollup.uniform.group.empty() && rollup.from > Domain::group) {
    e.out.line("const u32 group = tensor.group;");
  }
  emit_uniform_lines(e, rollup.uniform.group);
  emit_uniform_lines(e, rollup.uniform.tensor);
  for (ValueId r : rollup.reductions) {
    e.out.line(
        fmt::format("{}[{}] = {};", array_of(e, "slots", r), index, e.names[e.p[r].operands[0]]),
        e.comment(r));
  }
}

void emit_rollup(Emission& e, const Rollup& rollup) {
  bool tensors = rollup.from == Domain::tensor;
  std::string_view index = tensors ? "tensor_index" : "group";
  e.out.open("", fmt::format("roll up {} values", info(rollup.from).name));
  e.out.line("__syncthreads();", "results stand");
  emit_uniform_lines(e, rollup.uniform.step);
  e.out.pragma("#pragma unroll 1");
  e.out.open(fmt::format("for (u32 {0} = threadIdx.x; {0} < {1}; {0} += kThreads)", index,
                         slot_count(rollup.from)));
  if (tensors) e.out.line("const abi::Tensor& tensor = ctx.step.tensors[tensor_index];");
  emit_operands(e, rollup, index);
  e.out.close();
  e.out.line("__syncthreads();");
  for (ValueId r : rollup.reductions) emit_fold(e, r);
  e.out.close();
}

}  // namespace

bool folds_in_lanes(const Emission& e, int32_t phase) {
  const Phase& p = e.s.phases[static_cast<size_t>(phase)];
  auto any = [&](const std::vector<ValueId>& list) {
    return std::any_of(list.begin(), list.end(), [&](ValueId r) { return needs_lanes(e, r); });
  };
  return any(p.body.reductions) || std::any_of(p.rollups.begin(), p.rollups.end(),
                                               [&](const Rollup& r) { return any(r.reductions); });
}

void emit_folds(Emission& e, int32_t phase, bool split) {
  const Phase& p = e.s.phases[static_cast<size_t>(phase)];
  bool may_keep = split && !p.rollups.empty();
  if (may_keep) e.out.open("if ((ctx.flags & abi::kKeepResults) == 0)");
  for (ValueId r : p.body.reductions) emit_fold(e, r);
  if (may_keep) e.out.close();
  for (const Rollup& rollup : p.rollups) emit_rollup(e, rollup);
}

}  // namespace stepfuse::cuda
