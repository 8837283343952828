// What a turn of a streaming loop costs, counted: instructions by kind, bytes in flight, cycles. Knows
// loops and the latencies that the control words leave open.
#pragma once

#include <string>
#include <vector>

#include "tools/sass/loops.hpp"

namespace stepfuse::sass {

// Of one turn of one thread. What is "per element" is to be divided by `elements`.
struct Budget {
  int elements =
      0;  // that a turn of a thread handles; 0: bytes do not agree with what was expected
  int instructions = 0;
  int memory = 0, floats = 0, doubles = 0, integers = 0, special = 0, control = 0;
  int calls = 0;           // slow paths on the fast path
  int local = 0;           // accesses of local memory: spills
  int narrow = 0;          // global accesses of less than 4 bytes
  int loaded = 0;          // bytes
  int stored = 0;          // bytes
  int wide_bytes = 0;      // of both, those in accesses of 16 bytes or more
  int loads = 0;           // global ones
  int loads_at_once = 0;   // those that were issued before the first wait for one of them
  int bytes_at_once = 0;   // theirs
  int issue_cycles = 0;    // stalls, without any wait
  int exposed_cycles = 0;  // of one warp alone, waits for everything but global loads included

  double per_element(int n) const { return elements == 0 ? 0 : static_cast<double>(n) / elements; }
};

// What a loop is expected to move: bytes per element, and of values that a block of elements shares
// those which a thread reads for its eight elements; it seldom is the one that writes them.
struct Moved {
  int read = 0, written = 0, shared = 0;
};
Budget budget_of(const Loop& loop, Moved expected);

// What is wrong with it, in words that name the instruction; nothing for a loop as it should be.
std::vector<std::string> findings(const Loop& loop, const Budget& budget);

}  // namespace stepfuse::sass
