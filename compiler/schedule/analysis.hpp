// Analyses of a Program for scheduling. Knows ir.
#pragma once

#include <vector>

#include "compiler/schedule/schedule.hpp"

namespace stepfuse {

// [value] -> the first phase that can compute it, or use it if it is a reduction: the number of reductions
// over elements that it depends on. Reductions of other values are made behind a phase, at the earliest
// behind the first one.
std::vector<int> reduction_levels(const Program& program);

// [value] -> the phase that computes it, for reductions over elements; -1 for other values. That is the
// earliest possible phase, or a later one in time that loads all its inputs anyway if the earliest does
// not. If no reduction needs the result of an earlier one, the first phase makes all: ranks may exchange
// them.
std::vector<int> reduction_phases(const Program& program);

// Whether it is a reduction whose operand is a per-element value. The other reductions are made in a
// Rollup.
bool is_element_reduction(const Program& program, ValueId v);

// The code that `roots` (element values and uniform values) need: element code without the values in
// `fetched`, and uniform code. Both are in program order.
struct Slice {
  std::vector<ValueId> element;
  UniformCode uniform;
};
Slice backward_slice(const Program& program, const std::vector<ValueId>& roots,
                     const std::vector<Crossing>& fetched);

// The roots of one phase, from which its bodies and guard are made.
struct PhaseRoots {
  std::vector<ValueId> reductions;  // reductions of element values
  std::vector<ValueId> rollups;     // reductions of other values, made after those are folded
  std::vector<ValueId> stores;
  std::vector<Crossing> keeps;
  std::vector<Crossing> fetchable;  // fetched if some body needs them
};
Phase make_phase(const Program& program, std::string name, const PhaseRoots& roots);

Finish make_finish(const Program& program);

}  // namespace stepfuse
