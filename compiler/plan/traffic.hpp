// How many bytes a step moves per parameter: read off the plan, nothing measured. Knows the
// plan.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/plan/plan.hpp"

namespace stepfuse {

// What one phase does to one array, in bytes per element: parts of one, where elements share. A
// buffer is loaded at most once in a phase and stored at most once in a step.
struct ArrayTraffic {
  int32_t buffer = -1;
  int32_t scratch = -1;  // exactly one of the two is set
  double read = 0;
  double written = 0;
  double total() const { return read + written; }
  friend bool operator==(const ArrayTraffic&, const ArrayTraffic&) = default;
};

struct PhaseTraffic {
  std::vector<ArrayTraffic> arrays;   // buffers in declared order, then scratch arrays
  std::vector<ArrayTraffic> skipped;  // of a step whose guard is false, if the phase has one
  double bytes() const;
  double skipped_bytes() const;
  bool writes() const;  // any array, in a step that is taken
};

struct Traffic {
  std::vector<PhaseTraffic> phases;  // [phase]
  double bytes() const;              // per element, of a step that is taken
  double skipped_bytes() const;      // of one that is skipped
  // All phases together, one entry per array; an array that is not touched has none.
  std::vector<ArrayTraffic> by_array() const;
  // The same if each array were read once and written once: no schedule moves less.
  std::vector<ArrayTraffic> floor() const;
};

// For tensors of one signature. The slots of reductions (a few bytes for 16,384 elements) and the
// states are left out; what a cache keeps between two phases is counted each time.
Traffic traffic_of(const KernelPlan& plan, size_t signature);

// Grid barriers and launches of one step on a device.
int barrier_count(const KernelPlan& plan);
int launch_count(const KernelPlan& plan);

}  // namespace stepfuse
