// Copies a step's reports from host memory into the ring. Knows ir and the ring.
#pragma once

#include <vector>

#include <stepfuse/program.hpp>

#include "runtime/stats_ring.hpp"

namespace stepfuse {

// Reports of the step domain, in declaration order; the others are read as states.
inline bool is_ring_report(const State& s) { return s.report && s.type.domain == Domain::step; }

class HostReports {
 public:
  HostReports() = default;
  HostReports(const Program& program, const std::vector<void*>& states) {
    for (size_t i = 0; i < program.states.size(); ++i) {
      if (is_ring_report(program.states[i]))
        sources_.push_back({states[i], program.states[i].type.dtype});
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
