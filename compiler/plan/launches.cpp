// Counts what of a step all blocks of a device do behind its phases. Knows the plan.
#include <algorithm>

#include "compiler/plan/plan.hpp"

namespace stepfuse::plan {

int32_t shared_pieces(const KernelPlan& plan, const Kernel& kernel) {
  int32_t pieces = 0;
  auto is_shared = [&](int32_t r) { return plan.reduction(r).to.scope == Scope::tensor; };
  for (int32_t p = kernel.first_phase; p < kernel.end(); ++p) {
    const Phase& phase = plan.phase(p);
    std::vector<int32_t> folded = plan.folded_in(phase);
    bool shares = std::any_of(folded.begin(), folded.end(), is_shared);
    pieces += shares ? 1 : 0;
    for (const Rollup& rollup : phase.rollups) {
      if (!splits_tensor(rollup.from)) continue;
      const auto& rolled = rollup.reductions;
      bool to_tensors = std::any_of(rolled.begin(), rolled.end(),
                                    [&](const auto& c) { return is_shared(c.reduction); });
      pieces += to_tensors ? 2 : 1;
    }
  }
  bool finishes = &kernel == &plan.kernels.back() && kernel.phase_count > 0;
  return pieces + (finishes && writes_lines(plan) ? 1 : 0);
}

}  // namespace stepfuse::plan
