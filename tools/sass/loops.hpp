// The streaming loops of a kernel: the innermost loops that move arrays through registers, and what
// one normal turn of each executes. Knows instructions only.
#pragma once

#include <set>
#include <vector>

#include "tools/sass/sass.hpp"

namespace stepfuse::sass {

struct Loop {
  int head = 0, latch = 0;  // first and last instruction, indices into the function
  // One turn on its fast path: the cheapest for the bytes that it moves, without calls, and with
  // wide accesses if there are any.
  std::vector<const Instruction*> path;
  // Its accesses under the predicate of a branch that the path takes; on this path every thread
  // makes them.
  std::set<const Instruction*> made;
};

// In code order. `f` must outlive the result.
std::vector<Loop> streaming_loops(const Function& f);

}  // namespace stepfuse::sass
