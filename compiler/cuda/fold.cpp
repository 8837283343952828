// CUDA text of what stands behind a phase: slots to results, and reductions of values between step
// and element; by the last block or, of what there may be many, by all of a grid. Knows the plan.
#include <algorithm>
#include <iterator>

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

// The first member of each tensor.
std::string members_begin(Granularity g) {
  return fmt::format("ctx.step.parts[{}].begin",
                     abi::partition_index(number_of(g), number_of(per::tensor)));
}

std::string slot_count(Granularity from) {
  if (is_tile(from)) return "ctx.step.chunk_count";
  if (splits_tensor(from)) return members_begin(from) + "[ctx.step.tensor_count]";
  return fmt::format("ctx.step.{}_count", info(from).name);
}

void emit_fold(Emission& e, int32_t number, Blocks by = Blocks::last) {
  std::string_view blocks = by == Blocks::last ? "0, 1" : "blockIdx.x, gridDim.x";
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

// What is evaluated for each member of `from`: of rows and columns by all blocks, else by one.
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

std::string title(const plan::Rollup& rollup) {
  return fmt::format("roll up {} values", info(rollup.from).name);
}

// By the last block.
void emit_rollup(Emission& e, const plan::Rollup& rollup) {
  e.out.open("", title(rollup));
  e.out.line("__syncthreads();", "results stand");
  emit_operands(e, rollup);
  e.out.line("__syncthreads();");
  for (const plan::Combine& c : rollup.reductions) emit_fold(e, c.reduction);
  e.out.close();
}

void open_unless_kept(Emission& e) { e.out.open("if ((ctx.flags & abi::kKeepResults) == 0)"); }

// Whether there may be so many results that one block would take long.
bool is_many(const Emission& e, int32_t reduction) {
  return e.plan.reduction(reduction).to.scope == Scope::tensor;
}

// Those of `all` that are many, by all blocks, and the others by the last one; nothing where there
// are none.
void add_folds(Emission& e, const std::vector<int32_t>& all, Blocks by, bool may_keep,
               std::vector<Work>& out) {
  std::vector<int32_t> own;
  std::copy_if(all.begin(), all.end(), std::back_inserter(own),
               [&](int32_t r) { return is_many(e, r) == (by == Blocks::all); });
  if (own.empty()) return;
  out.push_back({by, [&e, own, by, may_keep] {
                   if (may_keep) open_unless_kept(e);
                   for (int32_t r : own) emit_fold(e, r, by);
                   if (may_keep) e.out.close();
                 }});
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

std::vector<Work> shared_work(Emission& e, int32_t phase, bool may_keep) {
  const plan::Phase& p = e.plan.phase(phase);
  may_keep &= !p.rollups.empty();
  std::vector<Work> out;
  std::vector<int32_t> folded = e.plan.folded_in(p);
  add_folds(e, folded, Blocks::all, may_keep, out);
  add_folds(e, folded, Blocks::last, may_keep, out);
  for (const plan::Rollup& rollup : p.rollups) {
    if (!splits_tensor(rollup.from)) {
      out.push_back({Blocks::last, [&e, &rollup] { emit_rollup(e, rollup); }});
      continue;
    }
    out.push_back({Blocks::all, [&e, &rollup] {
                     e.out.open("", title(rollup));
                     emit_operands(e, rollup);
                     e.out.close();
                   }});
    std::vector<int32_t> rolled;
    for (const plan::Combine& c : rollup.reductions) rolled.push_back(c.reduction);
    add_folds(e, rolled, Blocks::last, false, out);
    add_folds(e, rolled, Blocks::all, false, out);
  }
  return out;
}

void emit_folds(Emission& e, int32_t phase, bool may_keep) {
  const plan::Phase& p = e.plan.phase(phase);
  may_keep &= !p.rollups.empty();
  if (may_keep) open_unless_kept(e);
  for (int32_t r : e.plan.reductions_in(p, per::piece)) emit_fold(e, r);
  if (may_keep) e.out.close();
  for (const plan::Rollup& rollup : p.rollups) emit_rollup(e, rollup);
}

}  // namespace stepfuse::cuda
