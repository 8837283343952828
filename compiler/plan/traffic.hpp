// Computes from the plan how many bytes one step moves per parameter. Nothing is measured. Knows the plan.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/plan/plan.hpp"

namespace stepfuse {

// One phase's traffic on one array, in bytes per element (fractions, if elements share values). A phase
// loads a buffer at most once, and a step stores it at most once.
struct ArrayTraffic {
  int32_t buffer = -1;
  int32_t scratch = -1;  // exactly one of `buffer` and `scratch` is set
  double read = 0;
  double written = 0;
  double total() const { return read + written; }
  friend bool operator==(const ArrayTraffic&, const ArrayTraffic&) = default;
};

struct PhaseTraffic {
  std::vector<ArrayTraffic> arrays;   // buffers in declared order, then scratch arrays
  std::vector<ArrayTraffic> skipped;  // in a step whose guard is false, if the phase has a guard
  double bytes() const;
  double skipped_bytes() const;
  bool writes() const;  // whether it writes any array in a step that is not skipped
};

struct Traffic {
  std::vector<PhaseTraffic> phases;  // [phase]
  double bytes() const;              // per element, in a step that is not skipped
  double skipped_bytes() const;      // in a step that is skipped
  // All phases together, one entry per array; arrays that are not accessed have none.
  std::vector<ArrayTraffic> by_array() const;
  // The same if each array were read once and written once: no schedule moves less.
  std::vector<ArrayTraffic> floor() const;
};

// Counts for tensors of one signature. It leaves out the slots of reductions (a few bytes per 16,384
// elements) and the states, and counts data twice that a cache keeps between two phases.
Traffic traffic_of(const KernelPlan& plan, size_t signature);

// Return the grid barriers and the launches of one step on a device.
int barrier_count(const KernelPlan& plan);
int launch_count(const KernelPlan& plan);

}  // namespace stepfuse
