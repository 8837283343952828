// Lists what follows the chunks of each phase, and counts what all blocks of a device share. Knows the plan.
//
// Reductions over elements leave partial results in slots, and for each member the fold takes its own
// (runtime/tables/partitions.cpp), so folds need no names of granularities. A rollup computes an operand for every
// member, absent and empty tensors included, and is folded the same way. Results per tensor, row or column may be many,
// so all blocks of a GPU share their folds and loops, each behind a barrier. That is why a kernel of a single phase is
// launched cooperatively if it has rows. Forms with several kernels have extra launches instead. Values are arranged
// behind the last phase, when all stores are done.
#include <algorithm>

#include "compiler/plan/plan.hpp"

namespace stepfuse::plan {

std::vector<Work> work_behind(const KernelPlan& plan, const Kernel& kernel, const Phase& phase) {
  // Otherwise the last block does everything: there are only results for groups, tensors and the step.
  bool shares = plan.shares_work() || blocks_wait(plan, kernel);
  auto has_many = [&](int32_t r) { return shares && plan.reduction(r).to.scope == Scope::tensor; };
  std::vector<Work> out;
  auto fold = [&](std::vector<int32_t> reductions, bool by_all) {
    std::erase_if(reductions, [&](int32_t r) { return has_many(r) != by_all; });
    if (!reductions.empty()) out.push_back({.folds = std::move(reductions), .by_all = by_all});
  };
  fold(plan.folded_in(phase), true);
  fold(plan.folded_in(phase), false);
  for (size_t k = 0; k < phase.rollups.size(); ++k) {
    std::vector<int32_t> rolled;
    for (const Combine& c : phase.rollups[k].reductions) rolled.push_back(c.reduction);
    bool by_all = splits_tensor(phase.rollups[k].from);
    out.push_back({.rollup = static_cast<int32_t>(k),
                   .folds = by_all ? std::vector<int32_t>() : rolled,
                   .by_all = by_all});
    if (!by_all) continue;
    fold(rolled, false);
    fold(rolled, true);
  }
  bool is_last = &phase == &plan.phases.back();
  if (is_last && !plan.arrangements.empty()) out.push_back({.arranges = true, .by_all = true});
  return out;
}

int32_t shared_pieces(const KernelPlan& plan, const Kernel& kernel) {
  int32_t pieces = 0;
  for (int32_t p = kernel.first_phase; p < kernel.end(); ++p) {
    for (const Work& w : plan.phase(p).work) pieces += w.by_all ? 1 : 0;
  }
  bool finishes = &kernel == &plan.kernels.back() && kernel.phase_count > 0;
  return pieces + (finishes && writes_lines(plan) ? 1 : 0);
}

}  // namespace stepfuse::plan
