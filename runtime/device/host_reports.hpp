// Copies a step's reports from host memory into the ring. Knows the plan and the ring.
#pragma once

#include <vector>

#include "compiler/plan/plan.hpp"
#include "runtime/device/stats_ring.hpp"
#include "runtime/tables/workspace.hpp"

namespace stepfuse {

// Returns the number of values in a step's record.
inline size_t report_count(const KernelPlan& plan, const StepTables& tables) {
  size_t count = 0;
  for (int32_t i : plan.finish.reports) {
    count += member_count(plan.state(i).at, tables);
  }
  return count;
}

class HostReports {
 public:
  HostReports() = default;
  HostReports(const KernelPlan& plan, const std::vector<void*>& states, const StepTables& tables) {
    for (int32_t i : plan.finish.reports) {
      const plan::State& state = plan.state(i);
      const char* at = static_cast<const char*>(states[static_cast<size_t>(i)]);
      for (size_t m = 0; m < member_count(state.at, tables); ++m) {
        sources_.push_back({at + m * size_of(state.dtype), state.dtype});
      }
    }
    raw_.resize(sources_.size());
  }
  void push(uint64_t step_index, StatsRing& ring) noexcept {
    for (size_t i = 0; i < sources_.size(); ++i) {
      raw_[i] = load_bits(sources_[i].data, sources_[i].dtype).raw;
    }
    ring.push(step_index, raw_.data());
  }

 private:
  struct Source {
    const void* data;
    DType dtype;
  };
  std::vector<Source> sources_;
  std::vector<uint64_t> raw_;
};

}  // namespace stepfuse
