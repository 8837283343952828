// Copies a step's reports from host memory into the ring. Knows ir, the record's order and the ring.
#pragma once

#include <vector>

#include <stepfuse/program.hpp>

#include "compiler/schedule/analysis.hpp"
#include "runtime/stats_ring.hpp"
#include "runtime/workspace.hpp"

namespace stepfuse {

// Values of a step's record.
inline size_t report_count(const Program& program, size_t groups, size_t tensors) {
  size_t count = 0;
  for (size_t i : report_states(program)) {
    count += member_count(program.states[i].type.domain, groups, tensors);
  }
  return count;
}

class HostReports {
 public:
  HostReports() = default;
  HostReports(const Program& program, const std::vector<void*>& states, size_t groups,
              size_t tensors) {
    for (size_t i : report_states(program)) {
      const Type& type = program.states[i].type;
      const char* at = static_cast<const char*>(states[i]);
      for (size_t m = 0; m < member_count(type.domain, groups, tensors); ++m) {
        sources_.push_back({at + m * size_of(type.dtype), type.dtype});
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
