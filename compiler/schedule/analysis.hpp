// Questions about a Program that scheduling asks. Knows ir.
#pragma once

#include <vector>

#include "compiler/schedule/schedule.hpp"

namespace stepfuse {

// [value] -> the first phase it can be in, or, for a reduction, be used in: the number of reductions
// over elements it depends on. Reductions of other values are made behind a phase, the first one at
// the earliest.
std::vector<int> reduction_levels(const Program& program);

// [value] -> of a reduction over elements the phase that makes it: the first that can, unless a later
// one that is still in time has all of its loads for other reasons, and the first has not; others: -1.
// Where no reduction needs another one's result, the first phase makes all: ranks may exchange them.
std::vector<int> reduction_phases(const Program& program);

// A reduction whose operand is an element value; the others are made in a Rollup.
bool is_element_reduction(const Program& program, ValueId v);

// What `roots` (element values and uniform values) need: element code without the values of
// `fetched`, and the uniform code. All in program order.
struct Slice {
  std::vector<ValueId> element;
  UniformCode uniform;
};
Slice backward_slice(const Program& program, const std::vector<ValueId>& roots,
                     const std::vector<Kept>& fetched);

// The roots of one phase, as bodies with their guard.
struct PhaseRoots {
  std::vector<ValueId> reductions;  // of element values
  std::vector<ValueId> rollups;     // reductions of other values, made when those are folded
  std::vector<ValueId> stores;
  std::vector<Kept> keeps;
  std::vector<Kept> fetchable;  // fetched if needed
};
Phase make_phase(const Program& program, std::string name, const PhaseRoots& roots);

Finish make_finish(const Program& program);

}  // namespace stepfuse
