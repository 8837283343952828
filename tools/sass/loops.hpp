// The streaming loops of a kernel: the innermost ones that move arrays through registers, and what one
// turn of each executes where nothing unusual happens. Knows instructions only.
#pragma once

#include <set>
#include <vector>

#include "tools/sass/sass.hpp"

namespace stepfuse::sass {

struct Loop {
  int head = 0, latch = 0;  // first and last instruction, indices into the function
  // One turn on the way that is cheapest for what it moves: without calls, with wide accesses where
  // there are any.
  std::vector<const Instruction*> path;
  // Accesses of it under the predicate of a branch that it takes, and so made by every thread on it.
  std::set<const Instruction*> made;
};

// In the order of the code. `f` must outlive the result.
std::vector<Loop> streaming_loops(const Function& f);

}  // namespace stepfuse::sass
